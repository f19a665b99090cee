package datacard

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/parquetio"
)

// public is the finish of a row that is a public text, as package sampling writes it, which needs libtorch.
const public = "public"

// row is a row of the product, and plainRow one of a product without labels.
type (
	row struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
		Label  string `parquet:"label,dict"`
	}
	plainRow struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
	}
)

// product is what a run publishes: its rows that are not empty.
type product struct {
	rows     []row
	labels   map[string]bool
	distinct int // texts
	written  int // rows that a language model wrote
	public   int // rows that are copies of public texts
	repeated int // rows of the most frequent text
	leftOut  int // rows without text
}

// add counts a row.
func (p *product) add(r row, texts map[string]int) {
	if r.Text == "" {
		p.leftOut++
		return
	}
	p.rows = append(p.rows, r)
	if r.Label != "" {
		p.labels[r.Label] = true
	}
	if r.Finish == public {
		p.public++
	} else {
		p.written++
	}
	texts[r.Text]++
	p.repeated = max(p.repeated, texts[r.Text])
}

// readProduct reads a run's product.
func readProduct(path string) (*product, error) {
	f, err := parquetio.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("%s is not there: the run has no product yet; popri run --resume finishes it", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	columns := []parquetio.Column{{Name: "text"}, {Name: "finish"}}
	if f.Has("label") { // products of earlier versions have none
		columns = append(columns, parquetio.Column{Name: "label"})
	}
	p := &product{labels: map[string]bool{}}
	texts := map[string]int{}
	err = f.Scan(columns, func(_ int64, cells [][]parquetio.Cell) error {
		r := row{Text: cells[0][0].Value, Finish: cells[1][0].Value}
		if len(columns) > 2 {
			r.Label = cells[2][0].Value
		}
		p.add(r, texts)
		return nil
	})
	p.distinct = len(texts)
	if err == nil && len(p.rows) == 0 {
		err = fault.Userf("%s has no texts", path)
	}
	return p, err
}

// table describes the Parquet file of the product.
type table struct {
	bytes, size int64 // of all cells, of the file
	features    []feature
}

// write writes the rows, without the column label where no row has one.
func (p *product) write(path string) (t table, err error) {
	t.features = []feature{{"text", "string"}, {"finish", "string"}}
	for _, r := range p.rows {
		t.bytes += int64(len(r.Text) + len(r.Finish) + len(r.Label))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return t, err
	}
	if len(p.labels) > 0 {
		t.features = append(t.features, feature{"label", "string"})
		err = atomicfile.Write(path, func(w io.Writer) error { return parquetio.Write(w, p.rows, nil) })
	} else {
		plain := make([]plainRow, len(p.rows))
		for i, r := range p.rows {
			plain[i] = plainRow{r.Text, r.Finish}
		}
		err = atomicfile.Write(path, func(w io.Writer) error { return parquetio.Write(w, plain, nil) })
	}
	if err != nil {
		return t, err
	}
	info, err := os.Stat(path)
	if err == nil {
		t.size = info.Size()
	}
	return t, err
}
