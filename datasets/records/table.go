package records

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/internal/fault"
	"popri/internal/quote"
)

// mostColumns bounds the columns of a table: a header of many more is none.
const mostColumns = 1 << 16

// readTable reads comma-separated or tab-separated values.
func readTable(in *input, tabs bool, o Options, do func(Record) error) error {
	var err error
	if in.delimiter, err = delimiterOf(in, tabs, o.Delimiter); err != nil {
		return err
	}
	var content io.Reader = in
	if o.Backslash {
		content = &unescaper{in: in}
	}
	r := csv.NewReader(content)
	r.ReuseRecord = true
	r.Comma = rune(in.delimiter)
	at, header, err := readHeader(r, o.Columns)
	if err != nil {
		return err
	}
	for end := 1; ; { // the line on which the newest record ends
		in.next()
		fields, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			if e, ok := errors.AsType[*csv.ParseError](err); ok { // the next line can be read
				end = e.Line
				if err := o.passes(Position{Unit: "line", Number: int64(end)}, tableError(end, err)); err != nil {
					return err
				}
				continue
			}
			return tableError(end+1, err)
		}
		if fields[0] = strings.TrimPrefix(fields[0], "\ufeff"); slices.Equal(fields, header) { // files were joined
			continue
		}
		last := len(fields) - 1
		end, _ = r.FieldPos(last)
		end += strings.Count(fields[last], "\n")
		number, _ := r.FieldPos(0)
		record := Record{Position: Position{Unit: "line", Number: int64(number)}, HasClient: at[client] >= 0,
			HasSplit: at[split] >= 0}
		for role, cell := range []*Cell{&record.Client, &record.Split, &record.Date, &record.Label, &record.Source,
			&record.Text} {
			*cell = missing
			if at[role] >= 0 {
				*cell = Cell{Value: fields[at[role]]}
			}
		}
		if err := do(record); err != nil {
			return err
		}
	}
}

// readHeader reads the first line: at which index of a line each role's column is, -1 for none. A line "sep=;" before
// it, with which Excel names its delimiter, is no header.
func readHeader(r *csv.Reader, c Columns) (at [roles]int, header []string, err error) {
	header, err = r.Read()
	if err == nil && len(header) <= 2 && strings.HasPrefix(strings.Join(header, ""), "sep=") {
		r.FieldsPerRecord = 0
		header, err = r.Read()
	}
	if err == io.EOF {
		return at, nil, bad("it is empty: want a first line with the columns' names")
	}
	if err != nil {
		return at, nil, tableError(1, err)
	}
	if len(header) > mostColumns {
		return at, nil, bad("line 1: it names %d columns, want at most %d", len(header), mostColumns)
	}
	header = slices.Clone(header)
	column := map[string]int{}
	for i, name := range header {
		if name == "" { // spreadsheets write empty columns
			continue
		}
		if first, twice := column[name]; twice {
			return at, nil, bad("line 1: columns %d and %d have the same name", first+1, i+1)
		}
		column[name] = i
	}
	names, err := c.find(func(name string) bool { _, ok := column[name]; return ok }, func() []string { return header })
	if err != nil {
		return at, nil, err
	}
	for role, name := range names {
		at[role] = -1
		if name != "" {
			at[role] = column[name]
		}
	}
	return at, header, nil
}

// ErrQuotes marks quotation marks that are not doubled.
var ErrQuotes = errors.New("a quotation mark inside a cell is not doubled")

// tableError names the line. The library's errors quote nothing.
func tableError(line int, err error) error {
	position := Position{Unit: "line", Number: int64(line)}
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		position.Number = int64(e.Line)
		if e.Err == csv.ErrQuote || e.Err == csv.ErrBareQuote {
			e.Err = ErrQuotes
		}
		return badAt(position, "column %d: %w", e.Column, e.Err)
	}
	return badAt(position, "%w", err)
}

// delimiterOf returns the sign between cells: the one that is given, or the one that the first line has most of, a
// comma where it has none.
func delimiterOf(in *input, tabs bool, given string) (byte, error) {
	names := []string{"comma", "semicolon", "tab", "pipe"}
	if i := slices.Index(names, given); i >= 0 {
		return delimiters[i], nil
	}
	switch {
	case given == "" && tabs:
		return '\t', nil
	case given != "":
		if len(given) != 1 || given[0] >= utf8.RuneSelf || strings.Contains("\"\r\n\\", given) {
			return 0, fault.Userf("the delimiter is %s, want one sign of ASCII, or %s", quote.Text(given), strings.Join(names, ", "))
		}
		return given[0], nil
	}
	head, _ := in.in.Peek(64 << 10)
	count, quoted := [256]int{}, false
	for _, c := range head {
		if c == '\n' && !quoted {
			break
		}
		if c == '"' {
			quoted = !quoted
		} else if !quoted {
			count[c]++
		}
	}
	most := delimiters[0]
	for _, d := range []byte(delimiters) {
		if count[d] > count[most] {
			most = d
		}
	}
	return most, nil
}

// delimiters are the signs that a first line is searched for.
const delimiters = ",;\t|"

// unescaper doubles quotes that a backslash escapes, and takes away the backslash before another one.
type unescaper struct {
	in      io.Reader
	escaped bool // the last byte was a backslash that escapes the next
	left    []byte
	buffer  [4096]byte
	out     []byte
	err     error
}

// Read implements io.Reader.
func (u *unescaper) Read(b []byte) (int, error) {
	for len(u.left) == 0 && u.err == nil {
		var n int
		n, u.err = u.in.Read(u.buffer[:])
		u.out = u.out[:0]
		for _, c := range u.buffer[:n] {
			switch {
			case !u.escaped && c == '\\':
				u.escaped = true
				continue
			case u.escaped && c == '"':
				u.out = append(u.out, '"', '"')
			case u.escaped && c != '\\':
				u.out = append(u.out, '\\', c)
			default:
				u.out = append(u.out, c)
			}
			u.escaped = false
		}
		if u.err != nil && u.escaped {
			u.out, u.escaped = append(u.out, '\\'), false
		}
		u.left = u.out
	}
	n := copy(b, u.left)
	u.left = u.left[n:]
	if n > 0 {
		return n, nil
	}
	return 0, u.err
}
