package hub

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"gpt2", "distilgpt2", "HuggingFaceTB/SmolLM2-135M-Instruct",
		"sentence-transformers/all-MiniLM-L6-v2", "a_b/c.d"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/..", "../a", "/a", "a/", "./a", "a/b/c", "a--b", "-a", "a b", `a\b`,
		"a/.b", "a:b", "a%2fb", strings.Repeat("a", 97), "a\n"} {
		if CheckName(name) == nil {
			t.Errorf("%q passes as a name", name)
		}
	}
	for name, good := range map[string]bool{"main": true, "refs/pr/1": true, "v1.0-rc": true, "": false, "/a": false,
		"a/../b": false, "a b": false, "a\n": false, "..": false, ".": false, "a//b": false} {
		if err := CheckRevision(name); (err == nil) != good {
			t.Errorf("the revision %q: %v", name, err)
		}
	}
}

func TestCache(t *testing.T) {
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", "/home/u")
	for _, c := range []struct{ variable, value, want string }{ // from the weakest to the strongest
		{"HOME", "/home/u", "/home/u/.cache/huggingface/hub"}, {"XDG_CACHE_HOME", "/xdg", "/xdg/huggingface/hub"},
		{"HF_HOME", "~/hf", "/home/u/hf/hub"}, {"HF_HOME", "/hf", "/hf/hub"}, {"HF_HUB_CACHE", "/cache", "/cache"},
	} {
		t.Setenv(c.variable, c.value)
		if dir, err := Cache(); err != nil || dir != c.want {
			t.Errorf("%s=%s: %s, %v", c.variable, c.value, dir, err)
		}
	}
}

const commit = "0123456789abcdef0123456789abcdef01234567"

// cached makes a cache with these files of a model.
func cached(t *testing.T, name string, files map[string]string) (dir string) {
	cache := t.TempDir()
	t.Setenv("HF_HUB_CACHE", cache)
	folder := Folder(cache, name)
	files["../../refs/main"] = commit
	dir = Snapshot(folder, commit)
	for file, content := range files {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What is in the cache is used in place, if it is all there.
func TestResolve(t *testing.T) {
	whole := map[string]string{Config: "{}", Tokenizer: "{}", "model.safetensors": "x"}
	with := func(more ...string) map[string]string {
		files := map[string]string{}
		for name, content := range whole {
			files[name] = content
		}
		for i := 0; i < len(more); i += 2 {
			if files[more[i]] = more[i+1]; more[i+1] == "" {
				delete(files, more[i])
			}
		}
		return files
	}
	index, modules := "model.safetensors.index.json",
		`[{"path": "1_Pooling", "type": "a.Pooling"}, {"path": "2_Normalize", "type": "a.Normalize"}]`
	for name, c := range map[string]struct {
		files map[string]string
		role  Role
		want  string // missing; "" for nothing
	}{
		"decoder":       {with(), Decoder, ""},
		"SentencePiece": {with(Tokenizer, "", "spiece.model", "x"), Decoder, ""},
		"shards": {with("model.safetensors", "", index, `{"weight_map": {"a": "b.safetensors"}}`,
			"b.safetensors", "x"), Decoder, ""},
		"encoder":           {with(Modules, modules, "1_Pooling/config.json", "{}"), Encoder, ""},
		"no modules":        {with("../../.no_exist/"+commit+"/"+Modules, " "), Encoder, ""},
		"without config":    {with(Config, ""), Decoder, Config},
		"without tokenizer": {with(Tokenizer, ""), Decoder, Tokenizer},
		"without weights":   {with("model.safetensors", ""), Decoder, "model.safetensors"},
		"without a shard": {with("model.safetensors", "", index, `{"weight_map": {"a": "b.safetensors"}}`), Decoder,
			"b.safetensors"},
		"modules unknown":     {with(), Encoder, Modules},
		"without the pooling": {with(Modules, modules), Encoder, "1_Pooling/config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := cached(t, "org/name", c.files)
			t.Chdir(t.TempDir())
			got, err := Resolve("org/name", c.role)
			if c.want == "" {
				if err != nil || got != dir {
					t.Fatalf("%s, %v", got, err)
				}
				return
			}
			if !errors.Is(err, ErrNotCached) || !strings.Contains(err.Error(), "has no "+c.want) ||
				!strings.Contains(err.Error(), "popri model get org/name") {
				t.Errorf("%v", err)
			}
		})
	}

	dir := cached(t, "gpt2", with())
	t.Chdir(t.TempDir())
	if got, err := Resolve("gpt2", Decoder); err != nil || got != dir {
		t.Errorf("%s, %v", got, err)
	}
	testfile.Folder(t, "gpt2")
	if got, err := Resolve("gpt2", Decoder); err != nil || got != "gpt2" {
		t.Errorf("a folder of the name: %s, %v", got, err)
	}
	if err := errors.Join(os.WriteFile("m.gguf", nil, 0o644), os.WriteFile("file", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{"m.gguf": {"m.gguf", "popri model import"}, "file": {"file"},
		"./none": {"./none"}, "other": {"popri model get other", DefaultEndpoint + "/other", "tokenizer.json",
			os.Getenv("HF_HUB_CACHE")}} {
		_, err := Resolve(path, Decoder)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %s", path, err, w)
			}
		}
	}
	if _, err := Resolve("other", Encoder); err == nil || !strings.Contains(err.Error(), "1_Pooling") {
		t.Errorf("an encoder: %v", err)
	}
}

// TestNoRef: a cache that holds a commit, but not which one main is, says so.
func TestNoRef(t *testing.T) {
	dir := cached(t, "org/model", map[string]string{"config.json": "{}"})
	cache, err := Cache()
	if err != nil {
		t.Fatal(err)
	}
	testfile.Remove(t, filepath.Join(Folder(cache, "org/model"), "refs", DefaultRevision))
	if _, err := Find(cache, "org/model", DefaultRevision, Decoder); !errors.Is(err, ErrNotCached) ||
		!strings.Contains(err.Error(), "none is said to be main: name the folder "+dir) {
		t.Errorf("%v", err)
	}
}
