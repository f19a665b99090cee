package worlds

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/fault"
	"popri/testkit/testfile"
)

// folder has a file of every name that a world reads, empty.
func folder(t *testing.T) string {
	dir := t.TempDir()
	for _, w := range List() {
		for _, name := range append([]string{w.Client}, w.Public...) {
			if name == "" {
				continue
			}
			testfile.Write(t, filepath.Join(dir, name), "")
		}
	}
	return dir
}

// Every world is a valid configuration of its own data, with a row ε = ∞; the default changes nothing.
func TestEveryWorldIsAConfiguration(t *testing.T) {
	dir := folder(t)
	for _, w := range List() {
		layer, err := w.Layer(dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := configs.Load(configs.LoadOptions{World: layer})
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		if !c.Eval.ReferencePrivate {
			t.Errorf("%s: the clients' texts are not declared public", w.Name)
		}
		if w.Name == Default {
			if string(c.YAML()) != string(configs.Default().YAML()) {
				t.Errorf("%s is not the default configuration", w.Name)
			}
			continue
		}
		if w.Client != "" && c.Data.Private != filepath.Join(dir, w.Client) {
			t.Errorf("%s: clients in %s", w.Name, c.Data.Private)
		}
		if c.Data.Public == configs.Default().Data.Public || c.Model.Path != configs.Trained {
			t.Errorf("%s: public text %s, generator %s", w.Name, c.Data.Public, c.Model.Path)
		}
	}
}

// A later layer that names other clients withdraws the declaration of the world, one that changes other settings does
// not.
func TestOwnSettingsOverAWorld(t *testing.T) {
	w, err := Find("congress")
	if err != nil {
		t.Fatal(err)
	}
	layer, err := w.Layer(folder(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := configs.Load(configs.LoadOptions{World: layer, Set: []string{"model.path=gpt2", "data.since=1990"}})
	if err != nil || c.Model.Path != "gpt2" || c.Data.Since != "1990" || !c.Eval.ReferencePrivate {
		t.Errorf("changed settings: %v, %+v", err, c)
	}
	c, err = configs.Load(configs.LoadOptions{World: layer, Set: []string{"data.private=mine.parquet"}})
	if err != nil || c.Eval.ReferencePrivate {
		t.Errorf("other clients: %v, declared public", err)
	}
	own, err := Own("mine.parquet", "a.jsonl", "b.txt").Layer("nowhere")
	if err != nil {
		t.Fatal(err)
	}
	c, err = configs.Load(configs.LoadOptions{World: own})
	if err != nil || c.Eval.ReferencePrivate || c.Data.Public != "a.jsonl,b.txt" {
		t.Errorf("own files: %v, %+v", err, c)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	dir := folder(t)
	testfile.Remove(t, filepath.Join(dir, "imdb.parquet"))
	w, err := Find("imdb")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Layer(dir)
	if !fault.IsUser(err) || !strings.Contains(err.Error(), "has no imdb.parquet: name") ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	if _, err := Find("nowhere"); !fault.IsUser(err) || !strings.Contains(err.Error(), strings.Join(Names(), ", ")) {
		t.Errorf("an unknown world: %v", err)
	}
	if names := Names(); !slices.Contains(names, Default) ||
		len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("names %v", names)
	}
}

func TestDataFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	env := map[string]string{}
	check := func(asked, want string) {
		t.Helper()
		if got := DataFolder(asked, func(name string) string { return env[name] }); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check("", "data") // where there is none, the message names the first place
	check("mine", "mine")
	testfile.Folder(t, filepath.Join(dir, "data"))
	check("", "data")
	env[FolderVariable] = "theirs"
	check("", "theirs")
	check("mine", "mine")
}
