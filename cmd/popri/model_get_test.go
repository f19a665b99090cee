package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/modelcache"
	"popri/model/lm"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// hubOf makes an empty cache, and a Python whose huggingface_hub knows the model folders by their names. It notes in the
// file asked what it was asked for.
func hubOf(t *testing.T, folders map[string]string) (asked string) {
	const commit = "00000000000000000000000000000000000000aa"
	root := t.TempDir()
	asked = filepath.Join(root, "asked")
	script := "#!/bin/bash\nset -euo pipefail\n[ \"$1\" = -c ]; name=$3; rev=$4; shift 4; echo \"$name $*\" >> " + asked + "\n" +
		"case $name in\n"
	for name, dir := range folders {
		script += name + ") from='" + dir + "';;\n"
	}
	script += "*) echo 'warning' >&2; echo \"RepositoryNotFoundError: 404 $name\"; exit 1;;\nesac\n" +
		"at=\"$HF_HUB_CACHE/models--${name//\\//--}\"; to=$at/snapshots/" + commit + "; mkdir -p \"$to\" \"$at/refs\"\n" +
		"printf " + commit + " > \"$at/refs/$rev\"; cd \"$from\"\n" +
		"for pattern; do for f in $pattern; do if [ -f \"$f\" ]; then cp --parents \"$f\" \"$to\"; fi; done; done\necho \"$to\"\n"
	python := filepath.Join(root, "python3")
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POPRI_PYTHON", python)
	t.Setenv("HF_HUB_CACHE", filepath.Join(root, "hub"))
	return asked
}

// A model that was fetched by its name is used by its name, without network, and before that an error says how.
func TestModelByName(t *testing.T) {
	encoder := golden.Folder(t, "sentence") + "/bert-first"
	other := tinyModel(t)
	testfile.EditJSON(t, filepath.Join(other, "config.json"), func(v map[string]any) { v["model_type"] = "mamba" })
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
		if v := decode(t, out); v["name"] != name || v["revision"] != "main" || !strings.Contains(v["folder"].(string), "snapshots") {
			t.Errorf("%v", v)
		}
	}
	python := os.Getenv("POPRI_PYTHON")
	t.Setenv("POPRI_PYTHON", filepath.Join(t.TempDir(), "no-python")) // from here on, nothing may be asked for
	if code, out, errs := popri(t, generate...); code != 0 || len(lines(t, out)) != 1 {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	for _, args := range [][]string{embed, {"doctor", "--model", "tiny"}} {
		if code, _, errs := popri(t, args...); code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	for want, args := range map[string][]string{
		"pip install huggingface_hub":             {"model", "get", "none"},
		`"../x"`:                                  {"model", "get", "../x"},
		modelcache.Sources[0].Fetch:               {"model", "get", modelcache.Sources[0].Name},
		strings.Join(lm.Generators(), ", ") + ")": {"doctor", "--model", encoder},
		"bert, roberta, xlm-roberta, cam":         {"bench", "embed", "--model", other, "--texts", texts},
	} {
		if code, _, errs := popri(t, args...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	t.Setenv("POPRI_PYTHON", python)
	if code, _, errs := popri(t, "model", "get", "none", "--quiet"); code != exitUsage ||
		!strings.HasSuffix(strings.TrimSpace(errs), "model get: none: RepositoryNotFoundError: 404 none") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// A model that popri cannot use is refused before its weights are fetched.
func TestModelGetUnsupported(t *testing.T) {
	other := tinyModel(t)
	testfile.EditJSON(t, filepath.Join(other, "config.json"), func(v map[string]any) { v["model_type"] = "mamba" })
	asked := hubOf(t, map[string]string{"org/mamba": other})
	code, _, errs := popri(t, "model", "get", "org/mamba")
	for _, want := range []string{"org/mamba", `"mamba"`, "generators: " + strings.Join(lm.Generators(), ", ") + ";",
		"encoders: bert, roberta"} {
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, %s", code, errs)
		}
	}
	if b, err := os.ReadFile(asked); err != nil || string(b) != "org/mamba config.json\n" {
		t.Errorf("fetched %q, %v; want config.json alone", b, err)
	}
}
