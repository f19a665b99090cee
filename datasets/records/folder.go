package records

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"popri/internal/bom"
)

var errNoText = errors.New("it is not UTF-8 text")

var blankLines = regexp.MustCompile(`\n[ \t\r]*\n`)

// readFolder reads a folder: each file in it is a client, and each subfolder is one client of all its files, however deep.
// A client's ID is that name, without a file's extension. Names that begin with a dot are passed over, and so are blank
// paragraphs: they are no texts.
func readFolder(dir string, o Options, do func(Record) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	owner := map[string]string{}
	file := int64(0)
	for n, e := range entries {
		o.Progress(int64(n), int64(len(entries)))
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		id := e.Name()
		if !e.IsDir() {
			id = strings.TrimSuffix(id, filepath.Ext(id))
		}
		if other, ok := owner[id]; ok {
			return &Error{path: dir, err: fmt.Errorf("%s and %s would both be client %q", other, path, id)}
		}
		owner[id] = path
		err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if strings.HasPrefix(d.Name(), ".") {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if !d.Type().IsRegular() {
				return nil
			}
			paragraphs, err := Paragraphs(path)
			if err != nil {
				return err
			}
			for i, p := range paragraphs {
				place := Place{Unit: "file", Number: file, List: true, Text: i}
				if err := do(Record{Place: place, Client: Cell{Value: id}, Split: missing, Date: missing, Label: missing,
					Text: Cell{Value: p}, HasClient: true}); err != nil {
					return err
				}
			}
			file++
			return nil
		})
		if err != nil {
			return err
		}
	}
	o.Progress(int64(len(entries)), int64(len(entries)))
	return nil
}

// Paragraphs reads the paragraphs of a text file, separated by blank lines, their white space as single spaces.
func Paragraphs(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	raw = bom.Trim(raw)
	if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
		return nil, &Error{path: path, err: errNoText}
	}
	var out []string
	for _, p := range blankLines.Split(string(raw), -1) {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			out = append(out, p)
		}
	}
	return out, nil
}
