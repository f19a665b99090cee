// Package mixture is a table of words and of pairs of words that is mixed into the next-token distribution of a language
// model, and the file [File] that holds it beside the model's weights.
//
//	q(v)     = exp(logit(v) + tilt·r(v)) / Σ_w exp(logit(w) + tilt·r(w))      r(v): log-ratio of token v, else 0
//	P(v | u) = (1 − λ(u)) · q(v) + λ(u) · p(v | u)                            u: the token before v
//
// p(· | u) is the table's row of u, λ(u) its weight, 0 for a token without a row. Ids are of the model's tokenizer.
package mixture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// File is the name of the table in a model's folder.
const File = "mixture.json"

// Table is the table. All of its maps have tokens as keys.
type Table struct {
	Tilt      float64           `json:"tilt"`
	LogRatios map[int32]float64 `json:"log_ratios"` // r, nats
	Rows      map[int32]Row     `json:"rows"`
}

// Row is what follows a token.
type Row struct {
	Weight float64           `json:"weight"` // λ, from 0 to 1
	Next   map[int32]float64 `json:"next"`   // p, of sum 1
}

// Mix overwrites the logits of the token after before with the natural logarithms of P, over the vocabulary.
func (t *Table) Mix(before int32, logits []float32) {
	for v, r := range t.LogRatios {
		logits[v] += float32(t.Tilt * r)
	}
	most, sum := math.Inf(-1), 0.0
	for _, l := range logits {
		most = max(most, float64(l))
	}
	for _, l := range logits {
		sum += math.Exp(float64(l) - most)
	}
	row := t.Rows[before]
	norm, left := most+math.Log(sum), math.Log1p(-row.Weight)
	for v, l := range logits {
		logits[v] = float32(float64(l) - norm + left)
	}
	for v, p := range row.Next {
		logits[v] = float32(math.Log(math.Exp(float64(logits[v])) + row.Weight*p))
	}
}

// Write writes the table into a model's folder.
func (t *Table) Write(dir string) error { return atomicfile.WriteJSON(filepath.Join(dir, File), t) }

// Has reports whether a model's folder has a table.
func Has(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, File))
	return err == nil
}

// Refuse returns the user's mistake if a model's folder has a table, which a caller that takes the model alone would leave out.
func Refuse(dir string) error {
	if !Has(dir) {
		return nil
	}
	return fault.Userf("%s: a table of words and pairs is part of this model (%s), and only popri eval and popri try "+
		"apply it: name the folder of a model without one", dir, File)
}

// Read reads the table in the folder of a model with a vocabulary; nil if there is none.
func Read(dir string, vocabulary int) (*Table, error) {
	path := filepath.Join(dir, File)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	t := &Table{}
	if err == nil {
		err = json.Unmarshal(content, t)
	}
	if err == nil {
		err = t.check(vocabulary)
	}
	if err != nil {
		return nil, fault.Userf("mixture: %s: %w", path, err)
	}
	return t, nil
}

// check finds what no table of a model has.
func (t *Table) check(vocabulary int) error {
	bad := func(v int32, x, least, most float64) bool {
		return v < 0 || int(v) >= vocabulary || !(x >= least && x <= most)
	}
	for v, r := range t.LogRatios {
		if bad(v, r*t.Tilt, -1e3, 1e3) {
			return fmt.Errorf("token %d of %d has the log-ratio %g, tilt is %g", v, vocabulary, r, t.Tilt)
		}
	}
	for u, row := range t.Rows {
		sum := 0.0
		for v, p := range row.Next {
			if sum += p; bad(v, p, 0, 1+1e-6) {
				return fmt.Errorf("token %d of %d has the probability %g after token %d", v, vocabulary, p, u)
			}
		}
		if bad(u, row.Weight, 0, 1) || !(math.Abs(sum-1) < 1e-6) {
			return fmt.Errorf("the row of token %d of %d has the weight %g and probabilities of sum %g, must be from 0 to 1, and 1",
				u, vocabulary, row.Weight, sum)
		}
	}
	return nil
}
