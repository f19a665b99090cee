package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/modelcache"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// TestModelImport imports a file by the command, and writes text with the folder that it made.
func TestModelImport(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden.Folder(t, "gguf"), "*", "model.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	dir := filepath.Join(t.TempDir(), "model")
	code, out, errs := popri(t, "model", "import", files[0], "--out", dir, "--json", "--quiet")
	if code != 0 {
		t.Fatal(errs)
	}
	if v := decode(t, out); v["out"] != dir || number(t, v, "parameters") < 1000 || number(t, v, "vocabulary") < 256 {
		t.Errorf("%v", v)
	}
	prompts := write(t, t.TempDir(), "prompts.jsonl", "{\"prompt\": \"the\"}\n")
	code, out, errs = popri(t, "generate", "--model", dir, "--prompts", prompts, "--temperature", "0",
		"--max-new-tokens", "4")
	if code != 0 || len(lines(t, out)) != 1 {
		t.Errorf("generate: exit code %d, %s, %s", code, out, errs)
	}
	if code, out, errs = popri(t, "model", "import", files[0], "--out", dir+"2", "--dtype", "bfloat16"); code != 0 ||
		!strings.Contains(out, "bfloat16") || !strings.Contains(out, dir+"2") {
		t.Errorf("as text: exit code %d, %s, %s", code, out, errs)
	}
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	content := testfile.Read(t, files[0])
	testfile.Write(t, broken, content[:len(content)/2])
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{broken, "--out", dir + "3"}, broken},
		{[]string{files[0], "--out", dir}, dir},
		{[]string{files[0]}, "--out"},
		{[]string{files[0], "--out", dir + "3", "--dtype", "int4"}, `"int4"`},
		{[]string{dir + "/none.gguf", "--out", dir + "3"}, "none.gguf"},
	} {
		code, _, errs := popri(t, append([]string{"model", "import"}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, errs)
		}
	}
	if _, err := os.Stat(dir + "3"); err == nil {
		t.Error("a failed import left its folder")
	}
}

// TestModelExport exports the model of a folder by the command.
func TestModelExport(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden.Folder(t, "gguf"), "*", "model.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	dir, out := filepath.Join(t.TempDir(), "model"), filepath.Join(t.TempDir(), "made", "model.gguf")
	if code, _, errs := popri(t, "model", "import", files[0], "--out", dir); code != 0 {
		t.Fatal(errs)
	}
	code, text, errs := popri(t, "model", "export", dir, "--gguf", "q8_0", "--out", out, "--json", "--quiet")
	if code != 0 {
		t.Fatal(errs)
	}
	info, err := os.Stat(out)
	if v := decode(t, text); err != nil || v["out"] != out || v["type"] != "q8_0" || number(t, v, "bytes") != float64(info.Size()) ||
		number(t, v, "tensors") < 10 {
		t.Errorf("%v (%v)", v, err)
	}
	if code, text, errs := popri(t, "model", "export", dir, "--gguf", "f16", "--out", out+"2"); code != 0 ||
		!strings.Contains(text, "tensors of F16") || !strings.Contains(text, out+"2") {
		t.Errorf("as text: exit code %d, %s, %s", code, text, errs)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{dir, "--gguf", "f16", "--out", out}, "exists already"},
		{[]string{dir, "--gguf", "q5_k", "--out", out + "3"}, `"q5_k"`},
		{[]string{dir, "--gguf", "f16"}, "--out"},
		{[]string{dir, "--out", out + "3"}, "--gguf"},
		{[]string{dir + "/none", "--gguf", "f16", "--out", out + "3"}, "none"},
		{[]string{t.TempDir(), "--gguf", "f16", "--out", out + "3"}, "config.json"},
	} {
		code, _, errs := popri(t, append([]string{"model", "export"}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, errs)
		}
	}
}

// A demo with a model that was not fetched says how to fetch it, and one with an unknown model says which there are.
func TestDemoModel(t *testing.T) {
	t.Setenv("POPRI_CACHE", t.TempDir())
	for _, s := range modelcache.Sources {
		out := filepath.Join(t.TempDir(), "run")
		lines := [][]string{{"demo", "--model", s.Name}, {"run", "--preset", "demo-" + s.Name}}
		if s.Encodes {
			lines = [][]string{{"demo", "--encoder", s.Name},
				{"run", "--preset", "demo", "--set", "scoring.encoder=" + s.Name}}
		}
		for _, line := range lines {
			if code, _, errs := popri(t, append(line, "--out", out)...); code != exitUsage ||
				!strings.Contains(errs, s.Fetch) {
				t.Errorf("%v: exit code %d, %s", line, code, errs)
			}
		}
		if code, _, errs := popri(t, "demo", "--model", s.Name, "--out", out); code != exitUsage {
			t.Errorf("%s as a generator: exit code %d, %s", s.Name, code, errs)
		}
	}
	if code, _, errs := popri(t, "demo", "--model", "none"); code != exitUsage ||
		!strings.Contains(errs, "embedded, smollm2") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
