package safetensors

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/golden"
)

// Every safetensors file of the golden data was written by the reference: reading it and writing it again must give
// the same bytes.
func TestGoldenFilesAreWrittenByteForByte(t *testing.T) {
	root := golden.Root(t)
	out := filepath.Join(t.TempDir(), "out.safetensors")
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".safetensors") {
			return err
		}
		f, err := Open(path)
		if err != nil {
			t.Error(err)
			return nil
		}
		defer f.Close()
		var tensors []Tensor
		for _, name := range f.Names() {
			tensor, _ := f.Tensor(name)
			tensors = append(tensors, tensor)
		}
		if err := Write(out, tensors, f.Metadata()); err != nil {
			t.Error(err)
			return nil
		}
		got, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, f.content) {
			t.Errorf("%s: written again it differs", path)
		}
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Checked(t, "safetensors", n)
}

// The folders of golden models open as a whole, sharded or not, and hold finite weights.
func TestGoldenModelsOpen(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(golden.Root(t), "models", "*"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, dir := range folders {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		m, err := OpenModel(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(m.Names()) == 0 {
			t.Errorf("%s: no tensors", dir)
		}
		if err := checkFinite(m); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		n++
	}
	golden.Checked(t, "safetensors/model", n)
}
