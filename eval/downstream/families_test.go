package downstream

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"popri/datasets/clients"
	"popri/model/convert"
	"popri/testkit/golden"
)

// Every family that can be imported is a small model: its training lowers the loss, and the folder that is kept scores as
// the table says.
func TestGoldenSmallModels(t *testing.T) {
	w, _, _ := world(t)
	p, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(golden.Folder(t, "gguf"), "*", "model.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			if _, err := convert.Import(t.Context(), file, convert.Options{Out: dir, DType: convert.Auto}); err != nil {
				t.Fatal(err)
			}
			o := options(6)
			o.Rows, o.Length = Document, 24
			u := Suite{ModelDir: dir, Population: p, Options: o, Small: filepath.Join(t.TempDir(), "small"), Kept: "own"}
			results, err := u.Run(t.Context(), []Source{{Key: "own", Name: "text",
				Texts: clients.Texts(p.Split(clients.Train))}})
			if err != nil {
				t.Fatal(err)
			}
			zero, own := results[0], results[1]
			if own.BestStep == 0 || own.Perplexity >= zero.Perplexity || own.Bits == nil || own.Saved == nil {
				t.Errorf("ε = 0: %+v\ntrained: %+v", zero, own)
			}
			again, err := u.Run(t.Context(), []Source{{Key: "kept", Name: "kept", Model: u.Small}})
			if err != nil || !same(again[1].scores, own.scores) {
				t.Errorf("the kept model has other scores: %+v (%v)", again, err)
			}
		})
	}
	golden.Checked(t, "small-models", len(files))
}

// same compares scores but for rounding: a loaded model multiplies by joined projections, a trained one by each of them,
// and libtorch's products of other widths may add up in another order.
func same(a, b []Score) bool {
	return slices.EqualFunc(a, b, func(x, y Score) bool {
		near := math.Abs(x.Loss-y.Loss) <= 1e-6*y.Loss
		x.Loss = y.Loss
		return near && reflect.DeepEqual(x, y)
	})
}
