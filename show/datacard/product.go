package datacard

import (
	"errors"
	"io"
	"io/fs"

	"popri/internal/fault"
	"popri/internal/parquetio"
)

// public is the finish of a row that is a public text, as package sampling writes it, which needs libtorch.
const public = "public"

// row is a row of the product, and weighted one with the number of its rows. The plain ones are for a product without
// labels.
type (
	row struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
		Label  string `parquet:"label,dict"`
	}
	weighted struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
		Weight int64  `parquet:"weight"`
		Label  string `parquet:"label,dict"`
	}
	plainRow struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
	}
	plainWeighted struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
		Weight int64  `parquet:"weight"`
	}
)

// bytes is what a row's cells take.
func (r row) bytes() int64      { return int64(len(r.Text) + len(r.Finish) + len(r.Label)) }
func (r weighted) bytes() int64 { return int64(len(r.Text)+len(r.Finish)+len(r.Label)) + 8 }

// product is what a run publishes: its rows that are not empty, and each of them once with its weight.
type product struct {
	rows     []row
	once     []weighted // in the order of their first rows
	labels   map[string]bool
	distinct int // texts
	written  int // rows that a language model wrote
	public   int // rows that are copies of public texts
	repeated int // rows of the most frequent text
	leftOut  int // rows without text
}

// add counts a row.
func (p *product) add(r row, texts map[string]int, places map[row]int) {
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
	i, ok := places[r]
	if !ok {
		i = len(p.once)
		places[r] = i
		p.once = append(p.once, weighted{Text: r.Text, Finish: r.Finish, Label: r.Label})
	}
	p.once[i].Weight++
}

// repeats reports whether a row is there more than once.
func (p *product) repeats() bool { return len(p.once) < len(p.rows) }

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
	texts, places := map[string]int{}, map[row]int{}
	err = f.Scan(columns, func(_ int64, cells [][]parquetio.Cell) error {
		r := row{Text: cells[0][0].Value, Finish: cells[1][0].Value}
		if len(columns) > 2 {
			r.Label = cells[2][0].Value
		}
		p.add(r, texts, places)
		return nil
	})
	p.distinct = len(texts)
	if err == nil && len(p.rows) == 0 {
		err = fault.Userf("%s has no texts", path)
	}
	return p, err
}

// write writes the rows, without the column label where no row has one.
func (p *product) write(w io.Writer) error {
	if len(p.labels) > 0 {
		return parquetio.Write(w, p.rows, nil)
	}
	plain := make([]plainRow, len(p.rows))
	for i, r := range p.rows {
		plain[i] = plainRow{r.Text, r.Finish}
	}
	return parquetio.Write(w, plain, nil)
}

// writeOnce writes each row once with its weight, without the column label where no row has one.
func (p *product) writeOnce(w io.Writer) error {
	if len(p.labels) > 0 {
		return parquetio.Write(w, p.once, nil)
	}
	plain := make([]plainWeighted, len(p.once))
	for i, r := range p.once {
		plain[i] = plainWeighted{r.Text, r.Finish, r.Weight}
	}
	return parquetio.Write(w, plain, nil)
}
