package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var errNoText = errors.New("it is no text: it holds a byte 0")

// page is the name of a file in HTML.
var page = regexp.MustCompile(`(?i)\.x?html?(\.gz)?$`)

// readFolder reads a folder: each file in it is a client, and each subfolder is one client of all its files, however
// deep. A client's ID is that name, without a file's extension. Names that begin with a dot are passed over, and so are
// blank paragraphs: they are no texts. Of HTML (.html, .htm, .xhtml) the text alone is read.
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
			id = strings.TrimSuffix(id, compressed)
			id = strings.TrimSuffix(id, filepath.Ext(id))
		}
		if other, ok := owner[id]; ok && !o.OneClient {
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
			if info, err := os.Stat(path); err != nil {
				return err
			} else if info.IsDir() && !d.IsDir() {
				return &Error{path: path, err: errors.New("it is a link to a folder, which is not followed: copy the folder")}
			} else if !info.Mode().IsRegular() {
				return nil
			}
			err = paragraphs(path, o, func(text int, p string) error {
				position := Position{Unit: "file", Number: file, List: true, Text: text}
				return do(Record{Position: position, Client: Cell{Value: id}, Split: missing, Date: missing, Label: missing,
					Source: missing, Text: Cell{Value: p}, HasClient: true})
			})
			if err != nil {
				o.path = path
				if err := o.passes(Position{Unit: "file", Number: file}, err); err != nil {
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

// paragraphs calls do with the paragraphs of a text file, separated by blank lines, their white space as single spaces.
func paragraphs(path string, o Options, do func(number int, text string) error) error {
	o.Progress = func(int64, int64) {}
	if strings.EqualFold(filepath.Ext(path), ".mbox") {
		return &Error{path: path, err: errors.New("it is a mailbox: import it by itself")}
	}
	in, err := open(path, o)
	if err != nil {
		return err
	}
	defer in.Close()
	raw, err := io.ReadAll(in) // a file of a folder is a record: its size is bounded
	if err != nil {
		return &Error{path: path, position: in.position, err: err}
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return &Error{path: path, err: errNoText}
	}
	content := string(raw)
	if page.MatchString(path) {
		content = PlainText(content)
	}
	number := 0
	var paragraph strings.Builder
	end := func() error {
		if paragraph.Len() == 0 {
			return nil
		}
		text := paragraph.String()
		paragraph.Reset()
		number++
		return do(number-1, text)
	}
	for l := range strings.Lines(content) {
		blank := true
		for word := range strings.FieldsSeq(l) {
			if paragraph.Len() > 0 {
				paragraph.WriteByte(' ')
			}
			paragraph.WriteString(word)
			blank = false
		}
		if blank {
			if err := end(); err != nil {
				return err
			}
		}
	}
	return end()
}
