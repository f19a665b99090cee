package embedding

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/safetensors"
	"popri/testkit/testfile"
)

// An encoder that was saved embeds to the last bit as before and has the same key; a changed file is refused.
func TestSaved(t *testing.T) {
	var public []string
	for i := range 60 {
		public = append(public, fmt.Sprintf("word%d and word%d meet word%d", i%7, i%11, i%5))
	}
	latent, err := FitLatent(public, LatentConfig{Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	hashing, err := FitHashing(public, HashingConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"word1 meets word2", "", "something else", "word3"}
	for _, e := range []Encoder{latent, hashing} {
		path := filepath.Join(t.TempDir(), "encoder.safetensors")
		if err := Save(path, e); err != nil {
			t.Fatal(err)
		}
		again, err := LoadSaved(path)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := e.Encode(texts)
		got, err := again.Encode(texts)
		if err != nil || Key(again) != Key(e) || !slices.Equal(got.Data, want.Data) {
			t.Errorf("%s is read as %s (%v)", Key(e), Key(again), err)
		}
		content := testfile.Read(t, path)
		for name, change := range map[string]func([]byte) []byte{
			"a flipped bit": func(b []byte) []byte { b[len(b)-3] ^= 1; return b },
			"cut off":       func(b []byte) []byte { return b[:len(b)-4] },
			"another key": func(b []byte) []byte {
				return []byte(strings.Replace(string(b), Key(e), strings.Repeat("x", len(Key(e))), 1))
			},
			"another kind": func(b []byte) []byte {
				return []byte(strings.Replace(string(b), `encoder":"`,
					`encoder":"x`, 1))
			},
		} {
			testfile.Write(t, path, change(slices.Clone(content)))
			var format *safetensors.FormatError
			if _, err := LoadSaved(path); !errors.As(err, &format) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, %s: %v", e.Name(), name, err)
			}
		}
	}
	if _, err := LoadSaved(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := Save(filepath.Join(t.TempDir(), "x"), other{}); err == nil {
		t.Error("an encoder with weights of its own is saved")
	}
}

// other is an encoder that is not fitted to public text.
type other struct{}

func (other) Name() string                    { return "other" }
func (other) Dim() int                        { return 1 }
func (other) Encode([]string) (Matrix, error) { return Matrix{}, nil }
