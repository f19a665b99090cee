package experiment

import (
	"path/filepath"
	"slices"
	"testing"

	"popri/internal/rows"
	"popri/sampling"
)

// TestJudgeOwnSamples: a run's product can hold empty samples, and is judged without them; any other file with an empty
// text is refused.
func TestJudgeOwnSamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "synthetic.parquet")
	if err := rows.Write(path, []sampling.Row{{Text: "one"}, {}, {Text: "two"}}); err != nil {
		t.Fatal(err)
	}
	texts, err := judged(path)
	if err != nil || !slices.Equal(texts, []string{"one", "two"}) {
		t.Errorf("%q (%v)", texts, err)
	}
	type plain struct {
		Text string `parquet:"text"`
	}
	if err := rows.Write(path, []plain{{"one"}, {}}); err != nil {
		t.Fatal(err)
	}
	if _, err := judged(path); err == nil {
		t.Error("an empty text of another file is no error")
	}
}
