package evaluator

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/rows"
	"popri/methods/sampling"
	"popri/model/shipped"
	"popri/run/assembly"
)

// TestJudgeOwnSamples: a run's product can hold empty samples, and is readSource without them; any other file with an
// empty text is refused.
func TestJudgeOwnSamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "synthetic.parquet")
	if err := rows.Write(path, []sampling.Row{{Text: "one"}, {}, {Text: "two"}}); err != nil {
		t.Fatal(err)
	}
	src, err := readSource(configs.Default(), path)
	if texts := src.Texts; err != nil || !slices.Equal(texts, []string{"one", "two"}) {
		t.Errorf("%q (%v)", src.Texts, err)
	}
	type plain struct {
		Text string `parquet:"text"`
	}
	if err := rows.Write(path, []plain{{"one"}, {}}); err != nil {
		t.Fatal(err)
	}
	if _, err := readSource(configs.Default(), path); err == nil {
		t.Error("an empty text of another file is no error")
	}
}

// Rows that are longer than what the model attends to would give other figures, or end the program.
func TestLength(t *testing.T) {
	c := configs.Default()
	c.Downstream.Length = 10_000
	dir, _ := assembly.ModelDir(c.Downstream.Model, shipped.Device)
	_, trained := newSuite(c, nil, nil)
	_, tested := readSource(c, dir)
	if text := fmt.Sprint(trained, tested); strings.Count(text, "downstream.length is 10000") != 2 {
		t.Error(text)
	}
}
