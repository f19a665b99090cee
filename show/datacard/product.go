package datacard

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/parquetio"
	"popri/internal/rows"
)

// public is the finish of a row that is a public text, as package sampling writes it, which needs libtorch.
const public = "public"

// row is a row of the synthetic set, and plainRow one of a product without labels.
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

// read reads the rows of a run's product, without rows of empty text, and counts them.
func (r *Result) read(path string) (product []row, err error) {
	all, err := rows.Read[row](path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("%s is not there: the run has no product yet; popri run --resume finishes it", path)
	}
	if err != nil {
		return nil, err
	}
	texts, labels := map[string]int{}, map[string]bool{}
	for _, one := range all {
		if one.Text == "" {
			r.LeftOut++
			continue
		}
		if one.Label != "" {
			labels[one.Label] = true
		}
		if one.Finish == public {
			r.Public++
		} else {
			r.Written++
		}
		texts[one.Text]++
		r.Repeated = max(r.Repeated, texts[one.Text])
		product = append(product, one)
	}
	r.Texts, r.Distinct, r.Labels = len(product), len(texts), len(labels)
	if len(product) == 0 {
		return nil, fault.Userf("%s has no texts", path)
	}
	return product, nil
}

// table describes the Parquet file of the synthetic set.
type table struct{ CellBytes, FileBytes int64 }

// write writes the rows, without the column label where no row has one.
func write(path string, product []row, labelled bool) (t table, err error) {
	for _, r := range product {
		t.CellBytes += int64(len(r.Text) + len(r.Finish) + len(r.Label))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return t, err
	}
	if labelled {
		err = atomicfile.Write(path, func(w io.Writer) error { return parquetio.Write(w, product, nil) })
	} else {
		plain := numeric.Map(product, func(r row) plainRow { return plainRow{r.Text, r.Finish} })
		err = atomicfile.Write(path, func(w io.Writer) error { return parquetio.Write(w, plain, nil) })
	}
	if err != nil {
		return t, err
	}
	info, err := os.Stat(path)
	if err == nil {
		t.FileBytes = info.Size()
	}
	return t, err
}
