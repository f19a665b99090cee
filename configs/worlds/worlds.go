// Package worlds names the data that popri demo runs on: clients, public text, and the settings that
// suit both. A world is a layer of the configuration (configs.World) between preset and file, so every setting of it
// can be changed, and popri run does the same with the same settings.
//
//	godoc      the embedded default: needs no file, and its models come with the program
//	speeches   comes with the program, too; its small model and, without another, its generator are trained on its public text
//	others     files of a data folder; the small model and the generator are trained on the public file alone
package worlds

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"popri/configs"
	"popri/datasets/speeches"
	"popri/internal/fault"
	"popri/internal/numeric"
)

// Default is the world of the embedded default.
const Default = "godoc"

// FolderVariable names the folder of the worlds' files in the environment.
const FolderVariable = "POPRI_DATA"

// Folders are where worlds look for their files unless told otherwise: in the working directory, and next to it.
var Folders = []string{"data", filepath.Join("..", "shared", "data")}

// DataFolder is the folder that was asked for, else the environment's, else the first of [Folders] that exists.
func DataFolder(asked string, getenv func(string) string) string {
	if asked = cmp.Or(asked, getenv(FolderVariable)); asked != "" {
		return asked
	}
	for _, folder := range Folders {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			return folder
		}
	}
	return Folders[0]
}

// World is clients, public text and what suits them.
type World struct {
	Name   string
	Title  string   // what texts the clients have, as in "POPri on …"
	About  string   // who the clients are and what is public, for help
	Client string   // file of clients in the data folder; "" where Set names the data
	Public []string // files of public text in the data folder
	Set    []string // further settings, "key=value"
	// Files are the clients' file and the public text's of a world that has its own; else nil.
	Files func() (clients, public string, err error)
}

// trained are the settings of worlds whose models are trained on their public text. Their texts are spans that were cut
// without regard to sentences, so cutting public texts once more teaches nothing wrong.
func trained(more ...string) []string {
	return append([]string{"model.path=" + configs.Trained, "downstream.model=" + configs.Trained,
		"data.long_texts=cut", "eval.reference_private=true"}, more...)
}

// Books are the files of public text of all worlds but the embedded default's.
var Books = []string{"public.parquet", "public-wikitext.parquet"}

const aboutBooks = "public: Gutenberg books, plays and a little Wikipedia"

var all = []World{
	{Name: Default, Title: "Go's own comments",
		About: "comments of Go's compiler, linker and assembler; public: comments of the rest of Go (the default)"},
	{Name: "godoc-without-domain", Title: "Go's own comments, with public text of other folders only",
		About: "the same clients; no public text and no generator has seen the clients' folders",
		Set: []string{"data.private=godoc", "data.public=godoc-without-domain", "model.path=" + configs.Trained,
			"eval.reference_private=true"}},
	{Name: "speeches", Title: "addresses of presidents since 1945",
		About: "stretches of addresses of United States presidents since 1945, split by time; public: Gutenberg " +
			"books and plays",
		Files: speeches.Files, Set: trained()},
	{Name: "congress", Title: "State of the Union messages since 1945", Client: "congress.parquet", Public: Books,
		About: "stretches of State of the Union messages since 1945, split by time; " + aboutBooks,
		Set:   trained("data.since=1945")},
	{Name: "imdb", Title: "film reviews", Client: "imdb.parquet", Public: Books,
		About: "film reviews, cut to spans; " + aboutBooks, Set: trained()},
	{Name: "masc", Title: "documents of sixteen genres", Client: "masc-clients.parquet", Public: Books,
		About: "stretches of documents of sixteen genres (MASC); " + aboutBooks, Set: trained()},
	{Name: "banking77", Title: "bank customers' questions", Client: "banking77.parquet", Public: Books,
		About: "bank customers' questions, about ten words each; " + aboutBooks,
		Set:   trained("data.max_tokens=32", "generate.max_new_tokens=32", "generate.min_new_tokens=4")},
}

// Names returns the names of all worlds.
func Names() []string { return numeric.Map(all, func(w World) string { return w.Name }) }

// List returns all worlds.
func List() []World { return append([]World(nil), all...) }

// Find returns the world of a name.
func Find(name string) (World, error) {
	for _, w := range all {
		if w.Name == name {
			return w, nil
		}
	}
	return World{}, fault.Userf("--world %q: there are %s", name, strings.Join(Names(), ", "))
}

// Own is the world of anybody's files: no setting of it says more than that its models are trained on the public ones.
func Own(private string, public ...string) World {
	return World{Name: "own", Title: filepath.Base(private), Set: []string{"data.private=" + private,
		"data.public=" + strings.Join(public, ","), "model.path=" + configs.Trained,
		"downstream.model=" + configs.Trained,
		"data.long_texts=cut"}}
}

// Layer is the world as a layer of the configuration, with its files in folder. Files that are not there are the user's
// mistake.
func (w World) Layer(folder string) (configs.World, error) {
	layer := configs.World{Name: "world " + w.Name, Set: w.Set}
	if w.Files != nil {
		private, public, err := w.Files()
		if err != nil {
			return layer, fault.Userf("the world %s: %w", w.Name, err)
		}
		layer.Set = append([]string{"data.private=" + private, "data.public=" + public}, w.Set...)
		return layer, nil
	}
	if w.Client == "" {
		return layer, nil
	}
	var paths, missing []string
	for _, name := range append([]string{w.Client}, w.Public...) {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			missing = append(missing, name)
		}
		paths = append(paths, path)
	}
	if len(missing) > 0 {
		return layer, fault.Userf("the world %s reads %s (clients) and %s (public text), which do not come with "+
			"popri, and the folder %s has no %s: name the folder that has these files with --data, or your own files "+
			"with --private and --public", w.Name, w.Client, strings.Join(w.Public, ", "), folder, strings.Join(missing,
			", no "))
	}
	layer.Set = append([]string{"data.private=" + paths[0],
		fmt.Sprintf("data.public=%s", strings.Join(paths[1:], ","))}, w.Set...)
	return layer, nil
}
