package clients

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/internal/parquetio"
)

// streamed collects what Stream gives.
func streamed(t *testing.T, path string) (all []Client, batches int) {
	t.Helper()
	err := Stream(path, func(batch []Client) error {
		all = append(all, batch...)
		batches++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, batches
}

// Streamed clients are those that are read at once, also where one has rows in two row groups.
func TestStream(t *testing.T) {
	p := &Population{}
	for i := range 2500 {
		c := Client{ID: fmt.Sprintf("client-%05d", i), Split: Splits[i%3]}
		for k := range 1 + i%13 { // some 17 000 rows: a client has rows on both sides of the first 10 000
			c.Texts = append(c.Texts, fmt.Sprintf("text %d of %d", k, i))
			c.Dates = append(c.Dates, fmt.Sprintf("19%02d-01-02", 10+(i+k)%80))
		}
		c.Date, c.Dates = shared(c.Dates)
		p.Clients = append(p.Clients, c)
	}
	path := filepath.Join(t.TempDir(), "clients.parquet")
	if err := Write(path, p); err != nil {
		t.Fatal(err)
	}
	want, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if all, batches := streamed(t, path); batches < 2 || !reflect.DeepEqual(all, want.Clients) {
		t.Errorf("%d clients in %d batches, want %d clients", len(all), batches, len(want.Clients))
	}
	stop := errors.New("stop")
	if err := Stream(path, func([]Client) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the user's error is %v", err)
	}
}

// A file in another order is read as a whole; bad rows are named by their number in the file.
func TestStreamOtherFiles(t *testing.T) {
	row := func(id, text string) nullableRow { return nullableRow{ptr(id), ptr("train"), nil, nil, ptr(text)} }
	path := save(t, []nullableRow{row("b", "one"), row("a", "two"), row("b", "three")})
	all, batches := streamed(t, path)
	if batches != 1 || len(all) != 2 || len(all[0].Texts) != 2 {
		t.Errorf("%d batches: %+v", batches, all)
	}
	var rows []nullableRow
	for i := range 12_000 {
		rows = append(rows, row(fmt.Sprintf("c%06d", i), "text"))
	}
	rows[11_000].Split = ptr("nonsense")
	err := Stream(save(t, rows), func([]Client) error { return nil })
	if !errors.Is(err, parquetio.ErrFormat) || !strings.Contains(err.Error(), "row 11000") {
		t.Errorf("the error is %v", err)
	}
	if err := Stream(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("a missing file is no error")
	}
}
