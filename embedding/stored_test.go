package embedding

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// counted counts how often an encoder is asked.
type counted struct {
	Encoder
	calls int
}

func (c *counted) Encode(texts []string) (Matrix, error) {
	c.calls++
	return c.Encoder.Encode(texts)
}

// TestStored: the second call reads the file of the first, other texts have a file of their own, and a damaged file is
// written anew.
func TestStored(t *testing.T) {
	texts := []string{"a storm at sea", "the harbour at night", "a storm at night"}
	hashing, err := FitHashing(texts, HashingConfig{Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	e, dir := &counted{Encoder: hashing}, filepath.Join(t.TempDir(), "vectors")
	want, err := hashing.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	stored := func(texts []string, want Matrix, calls int) {
		t.Helper()
		got, err := Stored(e, dir, texts)
		if err != nil || !reflect.DeepEqual(got, want) || e.calls != calls {
			t.Fatalf("%v after %d calls, want %v after %d (%v)", got, e.calls, want, calls, err)
		}
	}
	stored(texts, want, 1)
	stored(texts, want, 1)
	stored(texts[:2], want.Slice(0, 2), 2)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v (%v)", files, err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("damaged"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored(texts, want, 3)
	stored(texts, want, 3)
}

// TestForget: the files that were used longest ago go first, and the one that was just written stays.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i, name := range []string{"newest.safetensors", "oldest.safetensors", "older.safetensors", "not-ours.txt"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, 100), 0o644); err != nil {
			t.Fatal(err)
		}
		at := now.Add([]time.Duration{0, -3 * time.Hour, -2 * time.Hour, -9 * time.Hour}[i])
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	left := func(most int64, path string, want ...string) {
		t.Helper()
		if err := forget(dir, filepath.Join(dir, path), most); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if !reflect.DeepEqual(names, want) {
			t.Errorf("with at most %d bytes: %q are left, want %q", most, names, want)
		}
	}
	left(300, "newest.safetensors", "newest.safetensors", "not-ours.txt", "older.safetensors", "oldest.safetensors")
	left(299, "oldest.safetensors", "newest.safetensors", "not-ours.txt", "oldest.safetensors")
	left(1, "newest.safetensors", "newest.safetensors", "not-ours.txt")
}
