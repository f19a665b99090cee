package clients

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	"popri/datasets"
	"popri/datasets/records"
	"popri/internal/parquetio"
)

// BuildOptions say how to make clients of a folder of text files.
type BuildOptions struct {
	Words            int     // longest text in words; longer paragraphs are cut into spans; 0 leaves them whole
	MinWords         int     // shorter paragraphs and remainders are left out
	Validation, Test float64 // shares of the clients in these splits, by a hash of their IDs; the rest is for training
}

// Build makes clients of a folder: each file in it is a client, and each subfolder is one client of all its files,
// however deep. A client's ID is that name, without a file's extension; its texts are the paragraphs, separated by
// blank lines. Names that begin with a dot, and clients without a text, are left out.
func Build(dir string, o BuildOptions) (*Population, error) {
	if o.Validation < 0 || o.Test < 0 || o.Validation+o.Test > 1 {
		return nil, fmt.Errorf("clients: shares of %g for validation and %g for test", o.Validation, o.Test)
	}
	p := &Population{Name: filepath.Base(dir), Unit: "a client is one file, or one folder with all its files"}
	at := map[string]int{}
	err := records.Read(dir, records.Options{Format: records.Folder}, func(r records.Record) error {
		for _, t := range o.spans(r.Text.Value) {
			i, known := at[r.Client.Value]
			if !known {
				i = len(p.Clients)
				at[r.Client.Value] = i
				p.Clients = append(p.Clients, Client{ID: r.Client.Value, Split: o.split(r.Client.Value)})
			}
			p.Clients[i].Texts = append(p.Clients[i].Texts, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	if len(p.Clients) == 0 {
		return nil, fmt.Errorf("clients: %s: %w: no file with a text of at least %d words", dir,
			parquetio.ErrFormat, o.MinWords)
	}
	return p, nil
}

// spans cuts a paragraph and leaves out what is short.
func (o BuildOptions) spans(paragraph string) []string {
	spans := []string{paragraph}
	if o.Words > 0 {
		spans = datasets.Chunk(paragraph, datasets.CountWords, o.Words)
	}
	return slices.DeleteFunc(spans, func(s string) bool { return datasets.CountWords(s) < o.MinWords })
}

// split depends on the ID alone: a client's split does not change when other clients are added.
func (o BuildOptions) split(id string) Split {
	sum := sha256.Sum256([]byte(id))
	switch u := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53); {
	case u < o.Test:
		return Test
	case u < o.Test+o.Validation:
		return Validation
	}
	return Train
}
