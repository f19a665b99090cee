package embedding

import (
	"path/filepath"
	"reflect"
	"testing"

	"popri/testkit/testfile"
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
// written again.
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
		got, err := Stored(t.Context(), e, dir, texts, nil)
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
		testfile.Write(t, f, "damaged")
	}
	stored(texts, want, 3)
	stored(texts, want, 3)
}
