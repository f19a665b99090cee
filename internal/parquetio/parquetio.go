// Package parquetio reads columns of strings from Parquet files that may be damaged or hostile, and writes rows.
//
// Parquet-go's struct reader turns missing columns and nulls into empty strings and numbers into text without a word.
// This package looks at the file's own schema, keeps nulls apart from empty strings, and turns whatever goes wrong in
// the library, panics included, into an error that names the file, the column and the place.
package parquetio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/quote"
)

// ErrFormat marks errors in a file's content: not Parquet, damaged, or of another schema.
var ErrFormat = fault.User(errors.New("bad file"))

// Cell is one string of a column.
type Cell struct {
	Value string // not checked for UTF-8
	Null  bool
}

// A decoded column may have spareBytes plus expansion times the file's size. Text is compressed to a tenth at best, and
// a dictionary of repeated texts gains a little more; without a limit, a small file could take minutes to read.
const (
	spareBytes = 256 << 20
	expansion  = 16
	// valueBytes is the cost of a value besides its bytes: a file may claim billions of empty values in a few bytes.
	valueBytes = 16
)

// File is an open Parquet file.
type File struct {
	path    string
	handle  *os.File
	parquet *parquet.File
	limit   int64 // decoded bytes of a column
	groups  []parquet.RowGroup
}

// Groups is the number of row groups.
func (f *File) Groups() int { return len(f.groups) }

// Group returns a view of one row group, which is read as a file of its own. It shares the handle of f.
func (f *File) Group(i int) *File {
	view := *f
	view.groups = f.groups[i : i+1]
	return &view
}

// Open opens a Parquet file and reads its schema.
func Open(path string) (f *File, err error) {
	handle, err := fault.Open(path)
	if err != nil {
		return nil, err // names the path
	}
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, fmt.Errorf("%s: %w: damaged metadata: %v", path, ErrFormat, r)
		}
		if err != nil {
			handle.Close()
		}
	}()
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s: %w: it is a directory", path, ErrFormat)
	case info.Size() == 0:
		return nil, fmt.Errorf("%s: %w: the file is empty (0 bytes)", path, ErrFormat)
	}
	if err := checkFrame(handle, info.Size()); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", path, ErrFormat, err)
	}
	opened, err := parquet.OpenFile(handle, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: not readable as Parquet: %v", path, ErrFormat, err)
	}
	f = &File{path, handle, opened, spareBytes + expansion*info.Size(), opened.RowGroups()}
	if err := f.checkExtents(info.Size()); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", path, ErrFormat, err)
	}
	names := f.Columns()
	slices.Sort(names)
	for i, name := range names {
		if i > 0 && name == names[i-1] {
			return nil, fmt.Errorf("%s: %w: column %s stands twice", path, ErrFormat, shownName(name))
		}
	}
	return f, nil
}

// checkFrame checks the magic bytes and the footer's length before the library uses either.
func checkFrame(r io.ReaderAt, size int64) error {
	const magic = "PAR1"
	var head, tail [8]byte
	if size < 12 {
		return fmt.Errorf("%d bytes are too few for a Parquet file", size)
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return err
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	if string(head[:4]) != magic {
		return fmt.Errorf("not a Parquet file: its first bytes are not %q", magic)
	}
	if string(tail[4:]) != magic {
		return fmt.Errorf("the file is cut off: its last bytes are not %q", magic)
	}
	footer := int64(binary.LittleEndian.Uint32(tail[:]))
	if footer > size-12 {
		return fmt.Errorf("the footer claims %d bytes of a file of %d", footer, size)
	}
	return nil
}

// checkExtents refuses metadata that point outside the file or claim more values than it can hold.
func (f *File) checkExtents(size int64) error {
	var rows int64
	for i, group := range f.parquet.Metadata().RowGroups {
		if group.NumRows < 0 {
			return fmt.Errorf("row group %d claims %d rows", i, group.NumRows)
		}
		if rows += group.NumRows; rows > f.limit/valueBytes {
			return fmt.Errorf("it claims %d rows or more, more than a file of %d bytes may hold (%d)", rows, size,
				f.limit/valueBytes)
		}
		for j, chunk := range group.Columns {
			m := chunk.MetaData
			if m.NumValues > f.limit/valueBytes {
				return fmt.Errorf("row group %d, column %d claims %d values, more than a file of %d bytes may "+
					"hold (%d)", i, j, m.NumValues, size, f.limit/valueBytes)
			}
			if m.TotalUncompressedSize > 2*f.limit { // with headers, whose statistics repeat values; before a codec is called
				return fmt.Errorf("row group %d, column %d decodes to %d bytes, more than twice the limit of %d (%d MiB and %d "+
					"times the file's size)", i, j, m.TotalUncompressedSize, f.limit, spareBytes>>20, expansion)
			}
			if m.DataPageOffset < 0 || m.TotalCompressedSize < 0 || m.DataPageOffset > size ||
				m.TotalCompressedSize > size || m.NumValues < 0 {
				return fmt.Errorf("row group %d, column %d: %d bytes at %d are not inside a file of %d bytes", i, j,
					m.TotalCompressedSize, m.DataPageOffset, size)
			}
		}
	}
	if total := f.parquet.NumRows(); rows != total {
		return fmt.Errorf("the footer claims %d rows, its row groups %d", total, rows)
	}
	return nil
}

// Close releases the file.
func (f *File) Close() error { return f.handle.Close() }

// Rows returns the number of rows.
func (f *File) Rows() int64 { return numeric.Sum(f.groups, parquet.RowGroup.NumRows) }

// Metadata returns the value of a key of the file's own metadata, "" if it is missing.
func (f *File) Metadata(key string) string {
	value, _ := f.parquet.Lookup(key)
	return value
}

// Columns returns the names of the top-level columns.
func (f *File) Columns() []string {
	return numeric.Map(f.parquet.Root().Columns(), (*parquet.Column).Name)
}

// Names returns the names of columns as [File.Has] knows them: a field of a struct is named by its path, as in
// user.name.
func (f *File) Names() (names []string) {
	var add func(prefix string, columns []*parquet.Column)
	add = func(prefix string, columns []*parquet.Column) {
		for _, c := range columns {
			if isStruct(c) {
				add(prefix+c.Name()+".", c.Columns())
			} else {
				names = append(names, prefix+c.Name())
			}
		}
	}
	add("", f.parquet.Root().Columns())
	return names
}

// DescribeNames lists the names of columns that look like names. Others may be data: some programs take the first row
// of a table without a header line as names.
func DescribeNames(names []string) string { return quote.List(numeric.Map(names, shownName), 20) }

func shownName(name string) string {
	if len(name) > 40 || strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("(a name of %d bytes)", len(name))
	}
	return name
}

// Has reports whether there is a top-level column of this name, or a field of structs of this path.
func (f *File) Has(name string) bool { return f.column(name) != nil }

// column returns the structs that lead to a column, and the column itself as the last one; none if it is missing.
func (f *File) column(name string) []*parquet.Column {
	if c := f.parquet.Root().Column(name); c != nil {
		return []*parquet.Column{c}
	}
	var path []*parquet.Column
	c := f.parquet.Root()
	for part := range strings.SplitSeq(name, ".") {
		if len(path) > 0 && !isStruct(c) {
			return nil
		}
		if c = c.Column(part); c == nil {
			return nil
		}
		path = append(path, c)
	}
	return path
}

// isStruct reports whether a column is a group of fields and no list, whose groups have one member.
func isStruct(c *parquet.Column) bool {
	return !c.Leaf() && !c.Repeated() && !(len(c.Columns()) == 1 && c.Columns()[0].Repeated())
}

// Strings reads a column of strings, one for each row.
func (f *File) Strings(name string) ([]Cell, error) { return f.Values(Column{Name: name}) }

// Values reads a column, one value for each row.
func (f *File) Values(column Column) ([]Cell, error) {
	cells := make([]Cell, 0, min(f.Rows(), 1<<20))
	err := f.scan([]Column{column}, []bool{false}, func(_ int64, row [][]Cell) error {
		cells = append(cells, row[0]...)
		return nil
	})
	return cells, err
}

// HasField reports whether the column is a list of structs with a field of this name.
func (f *File) HasField(name, field string) bool {
	for c := f.parquet.Root().Column(name); c != nil && !c.Leaf(); c = c.Columns()[0] {
		if len(c.Columns()) == 0 {
			return false
		}
		if c.Column(field) != nil {
			return f.IsList(name)
		}
	}
	return false
}

// Filled returns another field of a column of lists of structs than the known ones, the first of which must be there, if
// the file does not say that its values are all null; "" without one.
func (f *File) Filled(name string, known ...string) string {
	for _, group := range f.parquet.Metadata().RowGroups {
		at := 0 // where paths have the field
		for _, c := range group.Columns {
			if path := c.MetaData.PathInSchema; at == 0 && path[0] == name && path[len(path)-1] == known[0] {
				at = len(path) - 1
			}
		}
		for _, c := range group.Columns {
			path := c.MetaData.PathInSchema
			if at > 0 && path[0] == name && len(path) > at && !slices.Contains(known, path[at]) &&
				c.MetaData.NumValues > c.MetaData.Statistics.NullCount {
				return path[at]
			}
		}
	}
	return ""
}

// FieldLists reads a field of strings of a column of lists of structs, one list for each row; "" reads a list of
// strings. A null list is an empty one.
func (f *File) FieldLists(name, field string) ([][]Cell, error) {
	lists := make([][]Cell, 0, min(f.Rows(), 1<<20))
	err := f.scan([]Column{{Name: name, Field: field}}, []bool{true}, func(_ int64, row [][]Cell) error {
		lists = append(lists, slices.Clone(row[0]))
		return nil
	})
	return lists, err
}

// leaf is a column of byte arrays with the meaning of its levels.
type leaf struct {
	name           string
	index          int
	maxDefinition  int                        // the level of a value that is there
	listDefinition int                        // the level from which a list has an element
	text           func(parquet.Value) string // of values that are no strings, else nil
}

func (f *File) leaf(of Column, list bool) (leaf, error) {
	name := of.Name
	wrong := func(format string, args ...any) (leaf, error) {
		return leaf{}, fmt.Errorf("%s: %w: column %s %s", f.path, ErrFormat, name, fmt.Sprintf(format, args...))
	}
	path := f.column(name)
	if path == nil {
		return wrong("is missing; the file has %s", DescribeNames(f.Names()))
	}
	l := leaf{name: name}
	last := len(path) - 1
	for _, c := range path[:last] {
		if c.Optional() {
			l.maxDefinition++
		}
	}
	repeated := 0
	for c := path[last]; ; {
		if c.Optional() {
			l.maxDefinition++
		}
		if c.Repeated() {
			l.maxDefinition++
			l.listDefinition = l.maxDefinition
			repeated++
		}
		if c.Leaf() {
			l.index = c.Index()
			if isString(c.Type()) {
				break
			}
			if l.text = of.text(c.Type()); l.text == nil {
				return wrong("holds %s, want strings", c.Type())
			}
			break
		}
		switch inner := c.Columns(); {
		case of.Field != "" && c.Column(of.Field) != nil:
			c = c.Column(of.Field)
		case isStruct(c) || len(inner) != 1:
			return wrong("is a group of %d columns, want strings; the file has %s", len(inner), DescribeNames(f.Names()))
		default:
			c = inner[0]
		}
	}
	switch {
	case list && repeated != 1:
		return wrong("is not a list of strings")
	case !list && repeated != 0:
		return wrong("is a list, want one string a row")
	}
	for _, group := range f.parquet.Metadata().RowGroups {
		if codec := group.Columns[l.index].MetaData.Codec; codec == format.Lz4 || codec == format.Lz4Raw {
			return wrong("is compressed by %s, which the Parquet library decodes to other values: write the file again with "+
				"another compression, such as zstd", codec)
		}
	}
	return l, nil
}

// isString reports whether values of the type are strings. The logical type is checked first: a column without children
// that a damaged file calls a list or a map has no kind.
func isString(t parquet.Type) bool {
	if logical := t.LogicalType(); logical != nil {
		switch logical.Value.(type) {
		case nil, *format.StringType, *format.EnumType:
		default:
			return false
		}
	}
	return t.Kind() == parquet.ByteArray
}

var errTooMuch = errors.New("it holds more than the limit")
