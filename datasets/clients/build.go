package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"popri/datasets"
	"popri/internal/bom"
	"popri/internal/parquetio"
)

// BuildOptions say how to make clients of a folder of text files.
type BuildOptions struct {
	Words            int     // longest text in words; longer paragraphs are cut into spans; 0 leaves them whole
	MinWords         int     // shorter paragraphs and remainders are left out
	Validation, Test float64 // shares of the clients in these splits, by a hash of their IDs; the rest is for training
}

var blankLines = regexp.MustCompile(`\n[ \t\r]*\n`)

// Build makes clients of a folder: each file in it is a client, and each subfolder is one client of all its files,
// however deep. A client's ID is that name, without a file's extension; its texts are the paragraphs, separated by
// blank lines. Names that begin with a dot, and clients without a text, are left out.
func Build(dir string, o BuildOptions) (*Population, error) {
	if o.Validation < 0 || o.Test < 0 || o.Validation+o.Test > 1 {
		return nil, fmt.Errorf("clients: shares of %g for validation and %g for test", o.Validation, o.Test)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	p := &Population{Name: filepath.Base(dir), Unit: "a client is one file, or one folder with all its files"}
	owner := map[string]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		c := Client{ID: e.Name()}
		if !e.IsDir() {
			c.ID = strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		}
		err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || strings.HasPrefix(d.Name(), ".") || !d.Type().IsRegular() {
				return err
			}
			texts, err := readTexts(path, o)
			c.Texts = append(c.Texts, texts...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("clients: %w", err)
		}
		if len(c.Texts) == 0 {
			continue
		}
		if other, ok := owner[c.ID]; ok {
			return nil, fmt.Errorf("clients: %w: %s and %s would both be client %q", parquetio.ErrFormat, other, path, c.ID)
		}
		owner[c.ID] = path
		c.Split = o.split(c.ID)
		p.Clients = append(p.Clients, c)
	}
	if len(p.Clients) == 0 {
		return nil, fmt.Errorf("clients: %s: %w: no file with a text of at least %d words", dir,
			parquetio.ErrFormat, o.MinWords)
	}
	return p, nil
}

func readTexts(path string, o BuildOptions) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	raw = bom.Trim(raw)
	if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
		return nil, fmt.Errorf("%s: %w: it is not UTF-8 text", path, parquetio.ErrFormat)
	}
	var texts []string
	for _, paragraph := range blankLines.Split(string(raw), -1) {
		spans := []string{strings.Join(strings.Fields(paragraph), " ")}
		if o.Words > 0 {
			spans = datasets.Chunk(paragraph, datasets.CountWords, o.Words)
		}
		for _, s := range spans {
			if n := datasets.CountWords(s); n > 0 && n >= o.MinWords {
				texts = append(texts, s)
			}
		}
	}
	return texts, nil
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
