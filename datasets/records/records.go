// Package records reads texts with who wrote them, when, and under which label from files of other programs, one record
// after the other, in memory that does not grow with the file.
//
//	.parquet          a row for each text, or for each client with a list of texts
//	.jsonl, .ndjson   an object a line
//	.csv, .tsv        quoted as in RFC 4180, a first line with the columns' names; the sign between cells is found in it
//	.json             an object that maps clients to lists of texts, a list of texts, or a list of objects
//	.mbox             a message for each text, whose sender is the client, without the lines that it quotes
//	a folder          a client for each file and each subfolder; paragraphs are its texts, of .html without its tags
//
// All but Parquet and folders may be compressed (.gz). A field of an object in JSON, or of a struct in Parquet, is
// named by its path, as in user.name. Records are bounded in bytes and in cells. Errors name the file and the position,
// wrap parquetio.ErrFormat, and quote no cell: where columns are swapped, any of them may be somebody's text.
package records

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/parquetio"
	"popri/internal/quote"
)

// Cell is a value that may be missing.
type Cell = parquetio.Cell

var missing = Cell{Null: true}

// Record is one text with what the file says of it.
type Record struct {
	Position                                 Position
	Client, Split, Date, Label, Source, Text Cell // nothing is checked but that the types fit
	HasClient, HasSplit                      bool // the file, or the object of JSON, has such a column
}

// Position says where in a file a record is.
type Position struct {
	Unit   string // "row" or "entry", which count from 0; "line" and "message", from 1; "key", from 0; "file"
	Number int64
	List   bool // the record is one of a list of texts
	Text   int  // its index there
}

func (p Position) String() string {
	if p.List {
		return fmt.Sprintf("%s %d, text %d", p.Unit, p.Number, p.Text)
	}
	return fmt.Sprintf("%s %d", p.Unit, p.Number)
}

// Columns names the columns or fields that hold the parts of a record. An empty name stands for the name that client
// files use, if the file has it: client_id, text or texts, date, label, split.
type Columns struct {
	Client string `json:"client,omitempty"`
	Text   string `json:"text,omitempty"`
	Date   string `json:"date,omitempty"`
	Label  string `json:"label,omitempty"`
	Split  string `json:"split,omitempty"`
	// Source is read where the file has it; empty reads none.
	Source string `json:"-"`
	// Unread are parts that are not looked for, whatever the file has under their names: of split, date and label.
	Unread []string  `json:"-"`
	names  *[]string // set by find, which then finds nothing
}

// Dialect says how files are written. The zero value follows from each file's name and beginning.
type Dialect struct {
	Format    string `json:"format,omitempty"`    // a format of [Formats]; empty chooses by the file's extension
	Encoding  string `json:"encoding,omitempty"`  // a name of the WHATWG's Encoding Standard; empty is UTF-8, or UTF-16 behind its mark
	Delimiter string `json:"delimiter,omitempty"` // one sign, or comma, semicolon, tab, pipe; empty chooses by a CSV's first line
	Backslash bool   `json:"backslash,omitempty"` // a CSV's quotes are escaped by a backslash, not doubled
}

// Options say how to read a file.
type Options struct {
	Dialect
	Columns  Columns
	Progress func(done, total int64) // in bytes or rows; may be nil
	// OneClient says that all records are of one client, whose ID does not matter.
	OneClient bool
	// Bad is called with the error of a record behind which others can be read. If it returns nil, the record is passed
	// over. May be nil.
	Bad func(Position, *Error) error

	path string
}

// The formats.
const (
	Parquet = "parquet"
	JSONL   = "jsonl"
	CSV     = "csv"
	TSV     = "tsv"
	JSON    = "json"
	Mailbox = "mbox"
	Folder  = "folder"
)

// Formats lists the formats.
var Formats = []string{Parquet, JSONL, CSV, TSV, JSON, Mailbox, Folder}

// FormatOf returns the format of a file, which is given or follows from its name.
func FormatOf(path, given string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if given != "" {
		if !slices.Contains(Formats, given) {
			return "", fmt.Errorf("%w: format %s, want one of %s", parquetio.ErrFormat, quote.Text(given),
				strings.Join(Formats, ", "))
		}
		return given, nil
	}
	if info.IsDir() {
		return Folder, nil
	}
	switch ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(path, compressed))); ext {
	case ".parquet", ".csv", ".tsv", ".json", ".jsonl", ".mbox":
		return ext[1:], nil
	case ".ndjson":
		return JSONL, nil
	default:
		return "", fmt.Errorf("%s: %w: extension %s; name the format: %s", path, parquetio.ErrFormat, quote.Text(ext),
			strings.Join(Formats, ", "))
	}
}

// Read calls do with every record of a file, in order. Its strings stay valid; an error of do is returned as it is.
func Read(path string, o Options, do func(Record) error) error {
	format, err := FormatOf(path, o.Format)
	if err != nil {
		return err
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	o.path = path
	switch format {
	case Parquet:
		return readParquet(path, o, do)
	case Folder:
		return readFolder(path, o, do)
	case Mailbox:
		err = readMailbox(path, o, do)
		if bad, ok := err.(*Error); ok {
			bad.path = path
		}
		return err
	}
	in, err := open(path, o)
	if err != nil {
		return err
	}
	defer in.Close()
	switch format {
	case JSONL:
		err = readLines(in, o, do)
	case JSON:
		err = readJSON(in, o, do)
	default:
		err = readTable(in, format == TSV, o, do)
	}
	if bad, ok := err.(*Error); ok {
		bad.path = path
		if in.failed != nil { // a parser may say less than the reader knew
			bad.err, bad.position = in.failed, cmp.Or(in.position, bad.position)
		}
	}
	return err
}

// passes returns the error of a record, unless the record is passed over. An error of the caller's function stays as it
// is.
func (o *Options) passes(p Position, err error) error {
	if bad, ok := err.(*Error); ok && o.Bad != nil {
		bad.path = o.path
		return o.Bad(p, bad)
	}
	return err
}

// Error is a fault of a file's content, at a position if there is one.
type Error struct {
	path, position string
	err            error
}

func (e *Error) Error() string {
	if e.position != "" {
		return fmt.Sprintf("%s: %v: %s: %v", e.path, parquetio.ErrFormat, e.position, e.err)
	}
	return fmt.Sprintf("%s: %v: %v", e.path, parquetio.ErrFormat, e.err)
}

// Reason says what is wrong without position and file.
func (e *Error) Reason() string { return e.err.Error() }

// Kind says what is wrong in the same words for all such records.
func (e *Error) Kind() string {
	for _, kind := range []error{csv.ErrFieldCount, ErrQuotes, ErrEncoding, errNoText} {
		if errors.Is(e.err, kind) {
			return kind.Error()
		}
	}
	return "the record cannot be read"
}

// Unwrap marks the user's bad file.
func (e *Error) Unwrap() []error { return []error{parquetio.ErrFormat, e.err} }

func badAt(p Position, format string, args ...any) error {
	return &Error{position: p.String(), err: fmt.Errorf(format, args...)}
}

func bad(format string, args ...any) error { return &Error{err: fmt.Errorf(format, args...)} }

// roles are the parts of a record in the order client, split, date, label, source, text.
const (
	client = iota
	split
	date
	label
	source
	text
	roles
)

// find returns the names of the columns for the parts of a record, "" for those that the file does not have. Columns
// that are named must be there. there lists all names, for the error.
func (c Columns) find(has func(string) bool, there func() []string) (names [roles]string, err error) {
	if c.names != nil {
		*c.names = there()
		return names, bad("the names of its columns are read alone")
	}
	for i, role := range []struct{ flag, given, usual string }{{"client", c.Client, "client_id"},
		{"split", c.Split, "split"},
		{"date", c.Date, "date"}, {"label", c.Label, "label"}, {"source", "", c.Source}, {"text", c.Text, "text"}} {
		if slices.Contains(c.Unread, role.flag) {
			continue
		}
		names[i] = cmp.Or(role.given, role.usual)
		if i == text && role.given == "" {
			if has("texts") && has("text") {
				return names, bad("it has both a column text and a column texts; name one as the text column")
			} else if has("texts") {
				names[i] = "texts"
			}
		}
		if names[i] == "" || !has(names[i]) {
			if role.given != "" || i == text {
				return names, bad("it has no column %s for the %s; it has %s", quote.Text(names[i]), role.flag,
					cmp.Or(parquetio.DescribeNames(there()), "none"))
			}
			names[i] = ""
		}
	}
	return names, nil
}

// Names returns the columns of a file, or the fields of its first object; nil for a format without columns.
func Names(path string, d Dialect) (names []string, err error) {
	first := errors.New("the first record")
	err = Read(path, Options{Dialect: d, Columns: Columns{names: &names}}, func(Record) error { return first })
	if names != nil || errors.Is(err, first) {
		err = nil
	}
	return names, err
}
