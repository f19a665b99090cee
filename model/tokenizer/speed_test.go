package tokenizer

import (
	"os"
	"path/filepath"
	"popri/testkit/testfile"
	"testing"
)

// loaded keeps tokenizers, and what their caches hold, from one run of a benchmark to the next.
var loaded = map[string]*Tokenizer{}

// BenchmarkTexts encodes the texts of $POPRI_TEXTS (JSON lines, {"text": "…"}; default: comments of the Go library) one
// after another with each tokenizer of $POPRI_TOKENIZERS (a list of files; default: the files of testdata), on one
// thread: the work that scripts/tokenizer_speed.py gives to the reference.
func BenchmarkTexts(b *testing.B) {
	texts := benchTexts(b)
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	files := filepath.SplitList(os.Getenv("POPRI_TOKENIZERS"))
	if len(files) == 0 {
		var err error
		if files, err = filepath.Glob(filepath.Join("testdata", "*", FileName)); err != nil {
			b.Fatal(err)
		}
	}
	for _, file := range files {
		b.Run(filepath.Base(filepath.Dir(file)), func(b *testing.B) {
			if loaded[file] == nil {
				var err error
				if loaded[file], err = Load(file); err != nil {
					b.Fatal(err)
				}
			}
			tokenizer := loaded[file]
			b.SetBytes(int64(size))
			for b.Loop() {
				for _, text := range texts {
					tokenizer.Encode(text)
				}
			}
		})
	}
}

func benchTexts(b *testing.B) []string {
	path := os.Getenv("POPRI_TEXTS")
	if path == "" {
		return goSource(b, 2<<20)
	}
	var texts []string
	for _, line := range testfile.ReadLines[struct{ Text string }](b, path) {
		texts = append(texts, line.Text)
	}
	return texts
}
