package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"popri/internal/atomicfile"
	"popri/internal/modelcache"
	"popri/model/lm"
	"popri/testkit/golden"
)

// hubOf serves model folders by their names as Hugging Face's hub does, and makes an empty cache for them.
func hubOf(t *testing.T, folders map[string]string) {
	const commit = "00000000000000000000000000000000000000aa"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, dir := range folders {
			if r.URL.Path == "/api/models/"+name+"/revision/main" {
				list := []map[string]string{}
				err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
					if file, _ := filepath.Rel(dir, path); !d.IsDir() {
						list = append(list, map[string]string{"rfilename": filepath.ToSlash(file)})
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": list})
				return
			}
			if file, ok := strings.CutPrefix(r.URL.Path, "/"+name+"/resolve/"+commit+"/"); ok {
				path := filepath.Join(dir, file)
				sum, err := atomicfile.SHA256(path)
				info, also := os.Stat(path)
				if err != nil || also != nil {
					t.Error(err, also)
					return
				}
				w.Header().Set("X-Linked-Etag", sum)
				w.Header().Set("X-Linked-Size", strconv.FormatInt(info.Size(), 10))
				http.ServeFile(w, r, path)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"HF_ENDPOINT": server.URL, "HF_HUB_CACHE": t.TempDir(), "HF_TOKEN": "",
		"HF_HUB_OFFLINE": ""} {
		t.Setenv(name, value)
	}
}

// A model that was fetched by its name is used by its name, without network, and before that an error says how.
func TestModelByName(t *testing.T) {
	encoder := golden.Folder(t, "sentence") + "/bert-first"
	other := tinyModel(t)
	editJSON(t, filepath.Join(other, "config.json"), func(v map[string]any) { v["model_type"] = "mamba" })
	hubOf(t, map[string]string{"tiny": tinyModel(t), "org/bert": encoder, "org/mamba": other})
	prompts := write(t, t.TempDir(), "prompts.jsonl", "{\"prompt\": \"the\"}\n")
	texts := write(t, t.TempDir(), "texts.jsonl", "{\"text\": \"the\"}\n")
	generate := []string{"generate", "--model", "tiny", "--prompts", prompts, "--temperature", "0", "--max-new-tokens",
		"4"}
	embed := []string{"bench", "embed", "--model", "org/bert", "--texts", texts, "--n", "1"}
	for _, args := range [][]string{generate, embed, {"doctor", "--model", "tiny"}} {
		code, _, errs := popri(t, args...)
		if name := args[2]; code != exitUsage || args[0] == "generate" &&
			!strings.Contains(errs, "popri model get "+name) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	for _, name := range []string{"tiny", "org/bert"} {
		code, out, errs := popri(t, "model", "get", name, "--json", "--quiet")
		if code != 0 {
			t.Fatal(errs)
		}
		if v := decode(t, out); v["name"] != name || v["revision"] != "main" || number(t, v, "bytes") < 1000 {
			t.Errorf("%v", v)
		}
	}
	t.Setenv("HF_ENDPOINT", "http://127.0.0.1:1") // from here on, nothing may be asked for
	t.Setenv("HF_HUB_OFFLINE", "1")
	if code, out, errs := popri(t, generate...); code != 0 || len(lines(t, out)) != 1 {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	for _, args := range [][]string{embed, {"doctor", "--model", "tiny"}, {"model", "get", "tiny"}} {
		if code, _, errs := popri(t, args...); code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	for want, args := range map[string][]string{
		"HF_HUB_OFFLINE":            {"model", "get", "none"},
		`"../x"`:                    {"model", "get", "../x"},
		modelcache.Sources[0].Fetch: {"model", "get", modelcache.Sources[0].Name},
		strings.Join(lm.Generators(), ", ") + ")": {"doctor", "--model", encoder},
		"bert, roberta, xlm-roberta, cam":         {"bench", "embed", "--model", other, "--texts", texts},
	} {
		if code, _, errs := popri(t, args...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

// A model that popri cannot use is refused before its weights are fetched.
func TestModelGetUnsupported(t *testing.T) {
	other := tinyModel(t)
	editJSON(t, filepath.Join(other, "config.json"), func(v map[string]any) { v["model_type"] = "mamba" })
	hubOf(t, map[string]string{"org/mamba": other})
	code, _, errs := popri(t, "model", "get", "org/mamba")
	for _, want := range []string{"org/mamba", `"mamba"`, "generators: " + strings.Join(lm.Generators(), ", ") + ";",
		"encoders: bert, roberta"} {
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, %s", code, errs)
		}
	}
	if blobs, err := filepath.Glob(filepath.Join(os.Getenv("HF_HUB_CACHE"), "*", "blobs", "*")); err != nil ||
		len(blobs) != 1 {
		t.Errorf("fetched %q, %v; want config.json alone", blobs, err)
	}
}
