package parquetio

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"popri/internal/numeric"
)

// Column is a column that [File.Scan] reads.
type Column struct {
	Name string
	// Field, if not "", is the field that is read of a column of structs.
	Field string
	// Convert accepts whole numbers, booleans, dates, timestamps and UUIDs besides strings and turns them into text: a
	// date and a timestamp into YYYY-MM-DD (of UTC), the others into digits, true or false, or the usual form of a
	// UUID.
	Convert bool
	// Floats accepts floating-point numbers too, if Convert is set: whole ones become digits without a point, a NaN,
	// which stands for a missing value in some programs, becomes "". Identities must not be such numbers, because two
	// may have the same digits.
	Floats bool
}

// text returns how values of a type that is no string become text, nil if they may not.
func (c Column) text(t parquet.Type) func(parquet.Value) string {
	if !c.Convert {
		return nil
	}
	if text := floats(t); c.Floats && text != nil {
		return text
	}
	return converted(t)
}

// IsList reports whether the column of this name is a list.
func (f *File) IsList(name string) bool {
	path := f.column(name)
	if path == nil {
		return false
	}
	c := path[len(path)-1]
	return c.Repeated() || !c.Leaf() && !isStruct(c)
}

// Scan calls do with every row, in order: a list of cells for each of the columns, which has one cell unless the column
// is a list. A null list is an empty one. The lists are valid until do returns. Memory does not grow with the file: a
// page of each column is held. An error of do is returned as it is.
func (f *File) Scan(columns []Column, do func(row int64, cells [][]Cell) error) error {
	return f.scan(columns, numeric.Map(columns, func(c Column) bool { return f.IsList(c.Name) }), do)
}

// scan is [File.Scan] of columns that must be lists, or must be none.
func (f *File) scan(columns []Column, lists []bool, do func(row int64, cells [][]Cell) error) (err error) {
	cursors := make([]*cursor, len(columns))
	for i, c := range columns {
		leaf, err := f.leaf(c, lists[i])
		if err != nil {
			return err
		}
		cursors[i] = &cursor{file: f, leaf: leaf, buffer: make([]parquet.Value, 256)}
	}
	defer func() {
		for _, c := range cursors {
			c.close()
		}
	}()
	cells := make([][]Cell, len(columns))
	for row := range f.Rows() {
		for i, c := range cursors {
			if cells[i], err = c.row(cells[i][:0]); err != nil {
				return c.fail(err)
			}
		}
		if err := do(row, cells); err != nil {
			return err
		}
	}
	for _, c := range cursors {
		if ok, err := c.next(); err != nil || ok {
			if err == nil {
				err = fmt.Errorf("it holds values after the last of %d rows", f.Rows())
			}
			return c.fail(err)
		}
	}
	return nil
}

// cursor reads the values of a column one by one.
type cursor struct {
	file     *File
	leaf     leaf
	group    int // the next row group
	pages    parquet.Pages
	page     parquet.Page
	reader   parquet.ValueReader
	buffer   []parquet.Value
	left     []parquet.Value // of the buffer
	value    parquet.Value   // the newest
	text     string          // its bytes, copied
	again    bool            // the newest value was not used yet
	seen     int64
	decoded  int64
	finished bool
}

func (c *cursor) close() {
	if c.pages != nil {
		c.pages.Close()
		c.pages = nil
	}
}

// fail wraps an error with the file, the column and the place.
func (c *cursor) fail(err error) error {
	place := fmt.Sprintf("%s: %%w: column %s, after %d values: ", c.file.path, c.leaf.name, c.seen)
	if errors.Is(err, errTooMuch) {
		return fmt.Errorf(place+"%w of %d bytes (%d MiB and %d times the file's size)", ErrFormat, err, c.file.limit,
			spareBytes>>20, expansion)
	}
	if err == errLong {
		return fmt.Errorf(place+"%w", ErrFormat, err)
	}
	return fmt.Errorf(place+"damaged: %v", ErrFormat, err)
}

// next moves to the next value. It returns false after the last one.
func (c *cursor) next() (ok bool, err error) {
	if c.again {
		c.again = false
		return true, nil
	}
	if len(c.left) == 0 {
		if err := c.fill(); err != nil || c.finished {
			return false, err
		}
	}
	c.value, c.left = c.left[0], c.left[1:]
	switch {
	case c.leaf.text == nil:
		b := c.value.ByteArray()
		if c.decoded += int64(len(b)) + valueBytes; c.decoded > c.file.limit {
			return false, errTooMuch
		}
		if string(b) != c.text { // neighbours are often equal: clients, splits, labels
			c.text = string(b)
		}
	case c.value.DefinitionLevel() < c.leaf.maxDefinition:
		c.text = ""
	default:
		c.text = c.leaf.text(c.value)
	}
	c.seen++
	return true, nil
}

// fill reads more values. Whatever the library panics about becomes an error.
func (c *cursor) fill() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	for !c.finished {
		if c.reader == nil {
			if err := c.nextPage(); err != nil {
				return err
			}
			continue
		}
		n, err := c.reader.ReadValues(c.buffer)
		c.left = c.buffer[:n]
		switch {
		case err == io.EOF:
			// The values may point into the page: it is released after them.
			c.reader = nil
		case err != nil:
			return err
		case n == 0:
			return io.ErrNoProgress
		}
		if n > 0 {
			return nil
		}
	}
	return nil
}

func (c *cursor) nextPage() error {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	if c.pages == nil {
		groups := c.file.groups
		if c.group == len(groups) {
			c.finished = true
			return nil
		}
		c.pages = groups[c.group].ColumnChunks()[c.leaf.index].Pages()
		c.group++
	}
	page, err := c.pages.ReadPage()
	if err == io.EOF {
		err = c.pages.Close()
		c.pages = nil
		return err
	}
	if err != nil {
		return err
	}
	c.page, c.reader = page, page.Values()
	return nil
}

// mostListed bounds the list of a row, which is in memory as a whole.
const mostListed = 1 << 21

var errLong = fmt.Errorf("a row's list has more than %d values", mostListed)

// row appends the values of one row.
func (c *cursor) row(cells []Cell) ([]Cell, error) {
	for first := true; ; first = false {
		ok, err := c.next()
		if err != nil {
			return nil, err
		}
		switch {
		case !ok && first:
			return nil, errors.New("it has fewer values than the file has rows")
		case !ok:
			return cells, nil
		case first && c.value.RepetitionLevel() != 0:
			return nil, errors.New("it starts inside a list")
		case !first && c.value.RepetitionLevel() == 0:
			c.again = true
			return cells, nil
		}
		if c.value.DefinitionLevel() >= c.leaf.listDefinition {
			if len(cells) == mostListed {
				return nil, errLong
			}
			cells = append(cells, Cell{c.text, c.value.DefinitionLevel() < c.leaf.maxDefinition})
		}
		if c.leaf.listDefinition == 0 {
			return cells, nil
		}
	}
}

// floats returns how floating-point numbers become text, or nil for values of another type.
func floats(t parquet.Type) func(parquet.Value) string {
	text := func(x float64, bits int) string {
		switch {
		case math.IsNaN(x):
			return ""
		case x == math.Trunc(x) && math.Abs(x) < 1<<53:
			return strconv.FormatInt(int64(x), 10)
		}
		return strconv.FormatFloat(x, 'g', -1, bits)
	}
	switch {
	case t.LogicalType() != nil && t.LogicalType().Value != nil:
	case t.Kind() == parquet.Float:
		return func(v parquet.Value) string { return text(float64(v.Float()), 32) }
	case t.Kind() == parquet.Double:
		return func(v parquet.Value) string { return text(v.Double(), 64) }
	}
	return nil
}

// wholeOf writes a whole number in two's complement, the highest byte first.
func wholeOf(b []byte) string {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 8*uint(len(b))))
	}
	return n.String()
}

// IsFloat reports whether the column of this name holds floating-point numbers.
func (f *File) IsFloat(name string) bool {
	path := f.column(name)
	if path == nil || !path[len(path)-1].Leaf() {
		return false
	}
	k := path[len(path)-1].Type().Kind()
	return k == parquet.Float || k == parquet.Double
}

// converted returns how values of a type become text, or nil if they cannot.
func converted(t parquet.Type) func(parquet.Value) string {
	day := func(at time.Time) string { return at.UTC().Format(time.DateOnly) }
	if logical := t.LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.DateType:
			return func(v parquet.Value) string { return day(time.Unix(int64(v.Int32())*24*60*60, 0)) }
		case *format.TimestampType:
			switch l.Unit.Value.(type) {
			case *format.MilliSeconds:
				return func(v parquet.Value) string { return day(time.UnixMilli(v.Int64())) }
			case *format.MicroSeconds:
				return func(v parquet.Value) string { return day(time.UnixMicro(v.Int64())) }
			case *format.NanoSeconds:
				return func(v parquet.Value) string { return day(time.Unix(0, v.Int64())) }
			}
			return nil
		case *format.IntType:
			if !l.IsSigned {
				return func(v parquet.Value) string {
					if v.Kind() == parquet.Int32 {
						return strconv.FormatUint(uint64(v.Uint32()), 10)
					}
					return strconv.FormatUint(v.Uint64(), 10)
				}
			}
		case *format.DecimalType:
			if l.Scale != 0 {
				return nil
			}
			if k := t.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
				return func(v parquet.Value) string { return wholeOf(v.ByteArray()) }
			}
		case *format.UUIDType:
			return func(v parquet.Value) string {
				b := v.ByteArray()
				if len(b) != 16 {
					return ""
				}
				return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
			}
		case nil:
		default:
			return nil
		}
	}
	switch t.Kind() {
	case parquet.Int32:
		return func(v parquet.Value) string { return strconv.FormatInt(int64(v.Int32()), 10) }
	case parquet.Int64:
		return func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }
	case parquet.Boolean:
		return func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }
	}
	return nil
}
