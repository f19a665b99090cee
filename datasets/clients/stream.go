package clients

import (
	"fmt"
	"strings"

	"popri/internal/parquetio"
)

// Stream reads a client file as [Read] does and gives its clients to use in batches, each client once and whole.
//
// In a file whose rows are in ascending order of client_id, as [Write] writes them, only a row group is in memory at a
// time, and one client that it shares with the next. Any other file is read as a whole and is one batch. An error of
// use ends the reading.
func Stream(path string, use func(batch []Client) error) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	emit := func(batch []Client) error {
		if len(batch) == 0 {
			return nil
		}
		return use(batch)
	}
	ordered, err := ascending(f)
	if err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	if !ordered {
		p, err := Read(path)
		if err != nil {
			return err
		}
		return emit(p.Clients)
	}
	b := newBuilder()
	for g := range f.Groups() {
		if f.Group(g).Rows() > 0 {
			if err := readRows(f.Group(g), path, b); err != nil {
				return fmt.Errorf("clients: %w", err)
			}
		}
		if err := b.sound(path); err != nil {
			return err
		}
		last := g == f.Groups()-1
		done, rest := b.cut(last)
		if err := emit(done); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// ascending reports whether the rows are in ascending order of client_id. Then a client's rows are together, and none
// comes twice. A null is for the reading of rows to refuse.
func ascending(f *parquetio.File) (bool, error) {
	previous, rows := "", int64(0)
	for g := range f.Groups() {
		ids, err := f.Group(g).Strings("client_id")
		if err != nil {
			return false, err
		}
		for _, id := range ids {
			if strings.Compare(id.Value, previous) < 0 {
				return false, nil
			}
			previous = id.Value
		}
		rows += int64(len(ids))
	}
	return rows > 0, nil
}

// cut returns the complete clients and a builder that continues with the last one, which may have further rows; with all
// set, there are no further rows.
func (b *builder) cut(all bool) ([]Client, *builder) {
	rest := newBuilder()
	rest.row = b.row
	if n := len(b.clients) - 1; !all && n >= 0 {
		last := b.clients[n]
		rest.clients = []Client{last}
		rest.index[last.ID] = 0
		rest.firstRow, rest.lastRow = []int64{b.firstRow[n]}, []int64{b.lastRow[n]}
		rest.dates, rest.labels = [][]string{b.dates[n]}, [][]string{b.labels[n]}
		b.clients = b.clients[:n]
	}
	return b.finish(), rest
}
