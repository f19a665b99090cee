package clients

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"popri/internal/exactjson"
	"popri/internal/numeric"
	"popri/internal/parquetio"
)

// Problem is a problem of one row. It holds no cell of the file: where columns are swapped, an ID, a split or a date
// may be somebody's text.
type Problem struct {
	Row       int64  // counts from 0; -1 where the problem has no row
	ClientRow int64  // the first row of the row's client; -1 where it is the same row, or the row has no client
	Kind      string // the kind of the problem, such as "split is null"
	Message   string // the kind, with lengths, positions and rows
	Warning   bool   // true if [Read] accepts the row
}

func (p Problem) String() string {
	switch {
	case p.Row < 0:
		return p.Message
	case p.ClientRow < 0:
		return fmt.Sprintf("row %d: %s", p.Row, p.Message)
	}
	return fmt.Sprintf("row %d, of the client of row %d: %s", p.Row, p.ClientRow, p.Message)
}

// InvalidError is the error of a file whose rows break the rules of the schema.
type InvalidError struct {
	Path     string
	Problems []Problem // without warnings, at least one
}

func (e *InvalidError) Error() string {
	const shown = 3
	list := numeric.Map(e.Problems[:min(len(e.Problems), shown)], Problem.String)
	if n := len(e.Problems) - shown; n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("clients: %s: %s", e.Path, strings.Join(list, "; "))
}

// Unwrap lets errors.Is find parquetio.ErrFormat, which marks a user's bad file.
func (e *InvalidError) Unwrap() error { return parquetio.ErrFormat }

// Check reads a client file and reports every bad row, in the order of rows, and warns of labels that are missing where
// others are there, or are in validation or test and not in train. The error is for
// a file that cannot be read at all: not Parquet, damaged, columns missing or of the wrong type, or without rows.
func Check(path string) ([]Problem, error) {
	var rows []labelledRow
	b := newBuilder()
	b.labelled = func(row int64, at int, label string) {
		if at >= 0 && b.clients[at].Split.Valid() {
			rows = append(rows, labelledRow{row, at, label})
		}
	}
	if _, err := load(path, b); err != nil {
		return b.problems, err
	}
	b.checkLabels(rows)
	return b.problems, nil
}

// builder collects rows into clients and notes problems.
type builder struct {
	clients  []Client
	index    map[string]int // client ID to its index in clients
	firstRow []int64        // of each client
	lastRow  []int64
	dates    [][]string
	labels   [][]string
	problems []Problem
	row      int64 // the next row's number

	labelled func(row int64, at int, label string) // nil, or called for each row of a sound label with its client's index, -1 for none
}

func newBuilder() *builder { return &builder{index: map[string]int{}} }

// problem notes a problem of a row and of the client at an index, -1 for none.
func (b *builder) problem(row int64, at int, kind, format string, args ...any) {
	p := Problem{Row: row, ClientRow: -1, Kind: kind, Message: fmt.Sprintf(format, args...)}
	if at >= 0 && row >= 0 && b.firstRow[at] < row {
		p.ClientRow = b.firstRow[at]
	}
	b.problems = append(b.problems, p)
}

// warn notes what a run tolerates.
func (b *builder) warn(row int64, at int, kind, format string, args ...any) {
	b.problem(row, at, kind, format, args...)
	b.problems[len(b.problems)-1].Warning = true
}

// client notes a row's identifying cells and returns the client's index, or -1 if the row has no usable identity.
func (b *builder) client(row int64, id, split parquetio.Cell) int {
	switch {
	case id.Null:
		b.problem(row, -1, "client_id is null", "client_id is null")
		return -1
	case strings.TrimSpace(id.Value) == "":
		b.problem(row, -1, "client_id is blank", "client_id is blank")
		return -1
	case !utf8.ValidString(id.Value):
		b.problem(row, -1, "client_id is not UTF-8", "client_id is not UTF-8: %s", exactjson.IllFormed(id.Value))
		return -1
	}
	s := Split(split.Value)
	at, known := b.index[id.Value]
	if !known {
		at = len(b.clients)
		b.index[id.Value] = at
		b.clients = append(b.clients, Client{ID: id.Value, Split: s})
		b.firstRow, b.lastRow = append(b.firstRow, row), append(b.lastRow, row)
		b.dates, b.labels = append(b.dates, nil), append(b.labels, nil)
	}
	switch first := b.clients[at].Split; {
	case split.Null:
		b.problem(row, at, "split is null", "split is null")
	case !s.Valid():
		b.problem(row, at, "split is none of train, validation and test",
			"split is none of train, validation and test, it has %d bytes", len(split.Value))
	case first.Valid() && first != s:
		b.problem(row, at, "split differs within a client", "split is %q, but row %d puts the client in %q", s,
			b.firstRow[at], first)
	}
	if row > b.lastRow[at]+1 {
		b.warn(row, at, "a client's rows are not together",
			"the client's rows are not together: the one before is row %d", b.lastRow[at])
	}
	b.lastRow[at] = row
	return at
}

// text adds one text. name says which ("text", "texts[3]").
func (b *builder) text(row int64, at int, name string, text, date, label parquetio.Cell) {
	switch {
	case text.Null:
		b.problem(row, at, "text is null", "%s is null", name)
		return
	case !utf8.ValidString(text.Value):
		b.problem(row, at, "text is not UTF-8", "%s is not UTF-8: %s", name, exactjson.IllFormed(text.Value))
		return
	case strings.TrimSpace(text.Value) == "":
		b.problem(row, at, "text is blank", "%s is blank (%d bytes)", name, len(text.Value))
		return
	}
	if at >= 0 {
		b.clients[at].Texts = append(b.clients[at].Texts, text.Value)
		b.dates[at] = append(b.dates[at], date.Value)
		b.labels[at] = append(b.labels[at], label.Value)
	}
}

// attributes checks a row's date and label.
func (b *builder) attributes(row int64, at int, date, label parquetio.Cell) {
	if date.Value != "" && !validDate(date.Value) {
		b.problem(row, at, "date is no date of the form YYYY-MM-DD",
			"date is no date of the form YYYY-MM-DD, it has %d bytes", len(date.Value))
	}
	if !utf8.ValidString(label.Value) {
		b.problem(row, at, "label is not UTF-8", "label is not UTF-8: %s", exactjson.IllFormed(label.Value))
	} else if b.labelled != nil {
		b.labelled(row, at, label.Value)
	}
}

// sound is the error of a file with bad rows.
func (b *builder) sound(path string) error {
	if bad := slices.DeleteFunc(b.problems, func(p Problem) bool { return p.Warning }); len(bad) > 0 {
		return &InvalidError{path, bad}
	}
	return nil
}

func (b *builder) finish() []Client {
	for i := range b.clients {
		c := &b.clients[i]
		c.Date, c.Dates = shared(b.dates[i])
		c.Label, c.Labels = shared(b.labels[i])
	}
	return b.clients
}

// shared returns the value that all texts have, or "" and the values if they differ.
func shared(values []string) (string, []string) {
	for _, v := range values {
		if v != values[0] {
			return "", values
		}
	}
	if len(values) == 0 {
		return "", nil
	}
	return values[0], nil
}

func validDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}
