package clients

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/parquetio"
)

// Keys of the Parquet file's own metadata.
const (
	nameKey = "popri.name"
	unitKey = "popri.unit"
)

// Read reads a client file in either layout. Rows of one client need not be neighbours; clients keep the order of their
// first rows. Every row must be sound: an error names the bad rows (see [Check]) and the file, and wraps
// parquetio.ErrFormat.
func Read(path string) (*Population, error) {
	b := newBuilder()
	p, err := load(path, b)
	if err != nil {
		return nil, err
	}
	return p, b.sound(path)
}

// open opens a client file.
func open(path string) (*parquetio.File, error) {
	f, err := parquetio.Open(path)
	switch {
	case errors.Is(err, parquetio.ErrFormat):
		return nil, fmt.Errorf("clients: %w (popri data import makes a client file of other formats)", err)
	case err != nil:
		return nil, fmt.Errorf("clients: %w", err)
	case !f.Has("client_id"):
		f.Close()
		return nil, fmt.Errorf("clients: %s: %w: column client_id is missing; the file has %s (popri data import --client and "+
			"--text name columns)", path, parquetio.ErrFormat, parquetio.DescribeNames(f.Names()))
	}
	return f, nil
}

// load reads a file into a new builder, which then has the problems.
func load(path string, b *builder) (*Population, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := readRows(f, path, b); err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	p := &Population{Name: f.Metadata(nameKey), Unit: f.Metadata(unitKey), Clients: b.finish()}
	p.Name = cmp.Or(p.Name, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	p.Unit = cmp.Or(p.Unit, "a client is one client_id of "+filepath.Base(path))
	return p, nil
}

func readRows(f *parquetio.File, path string, b *builder) error {
	lists := f.Has("texts")
	if lists && f.Has("text") {
		return fmt.Errorf("%s: %w: it has both a column text and a column texts, want one", path, parquetio.ErrFormat)
	}
	ids, err := f.Strings("client_id")
	if err != nil {
		return err
	}
	splits, err := f.Strings("split")
	if err != nil {
		return err
	}
	dates, err := optional(f, parquetio.Column{Name: "date"})
	if err != nil {
		return err
	}
	labels, err := labelCells(f)
	if err != nil {
		return err
	}
	var texts []parquetio.Cell
	var perClient [][]parquetio.Cell
	if lists {
		perClient, err = f.FieldLists("texts", "")
	} else {
		texts, err = f.Strings("text")
	}
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("%s: %w: it holds no rows", path, parquetio.ErrFormat)
	}
	for i := range ids {
		row := b.row
		b.row++
		at := b.client(row, ids[i], splits[i])
		b.attributes(row, at, dates[i], labels[i])
		if !lists {
			b.text(row, at, "text", texts[i], dates[i], labels[i])
			continue
		}
		if len(perClient[i]) == 0 {
			b.problem(row, at, "texts is empty", "texts is empty")
		}
		for j, t := range perClient[i] {
			b.text(row, at, fmt.Sprintf("texts[%d]", j), t, dates[i], labels[i])
		}
	}
	return nil
}

// optional reads a column that may be missing; every cell is then null.
func optional(f *parquetio.File, column parquetio.Column) ([]parquetio.Cell, error) {
	if f.Has(column.Name) {
		return f.Values(column)
	}
	cells := make([]parquetio.Cell, f.Rows())
	for i := range cells {
		cells[i].Null = true
	}
	return cells, nil
}

// labelCells reads the labels, which may be numbers: they become text as in an import.
func labelCells(f *parquetio.File) ([]parquetio.Cell, error) {
	return optional(f, parquetio.Column{Name: "label", Convert: true, Floats: true})
}

// row is the schema of one row for each (client, text).
type row struct {
	Client string `parquet:"client_id,dict"`
	Split  string `parquet:"split,dict"`
	Date   string `parquet:"date,optional,dict"`
	Label  string `parquet:"label,optional,dict"`
	Text   string `parquet:"text"`
}

// Write writes a population with one row per (client, text), clients sorted by the bytes of their IDs, zstd, page
// checksums, row groups of 10 000 rows. The file is replaced as a whole or stays as it was. A population that [Read]
// would refuse is refused.
func Write(path string, p *Population) error {
	sorted := Sorted(p.Clients)
	b := newBuilder()
	var rows []row
	// Clients have no rows yet: errors name them by their index in the order of IDs.
	fault := func(i int, kind, detail string) {
		b.problem(-1, -1, kind, "client %d, counted from 0 by ID: %s%s", i, kind, detail)
	}
	for i, c := range sorted {
		if i > 0 && sorted[i-1].ID == c.ID {
			fault(i, "the client is there twice", "")
		}
		if len(c.Texts) == 0 {
			fault(i, "the client has no texts", "")
		}
		if c.Dates != nil && len(c.Dates) != len(c.Texts) || c.Labels != nil && len(c.Labels) != len(c.Texts) {
			fault(i, "the texts' dates or labels do not match",
				fmt.Sprintf(": %d texts with %d dates and %d labels", len(c.Texts), len(c.Dates), len(c.Labels)))
			continue
		}
		for j, t := range c.Texts {
			r := row{c.ID, string(c.Split), at(c.Date, c.Dates, j), at(c.Label, c.Labels, j), t}
			number := int64(len(rows))
			position := b.client(number, parquetio.Cell{Value: c.ID}, parquetio.Cell{Value: r.Split})
			date, label := parquetio.Cell{Value: r.Date}, parquetio.Cell{Value: r.Label}
			b.attributes(number, position, date, label)
			b.text(number, position, "text", parquetio.Cell{Value: t}, date, label)
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		b.problem(-1, -1, "there are no clients", "there are no clients to write")
	}
	if len(b.problems) > 0 {
		return &InvalidError{path, b.problems}
	}
	err := atomicfile.Write(path, func(w io.Writer) error {
		return parquetio.Write(w, rows, parquetio.Metadata{nameKey: p.Name, unitKey: p.Unit})
	})
	if err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	return nil
}

func at(all string, each []string, i int) string {
	if each != nil {
		return each[i]
	}
	return all
}

// Information has the counts of a file. Rows counts texts.
type Information struct {
	Counts
	Splits map[Split]Counts `json:"splits"`
	Name   string           `json:"name"`
	Unit   string           `json:"unit"`
	Labels []LabelCounts    `json:"labels,omitempty"` // see [countLabels]
}

// Info counts the contents of the population.
func (p *Population) Info() Information {
	info := Information{Counts: Count(p.Clients), Splits: map[Split]Counts{}, Name: p.Name, Unit: p.Unit,
		Labels: countLabels(p.Clients)}
	for _, s := range Splits {
		info.Splits[s] = Count(p.Split(s))
	}
	return info
}
