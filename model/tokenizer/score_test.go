package tokenizer

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"

	"popri/testkit/golden"
)

// TestGoldenScores: scores as numbers in a file have the bits that tokenizers 0.23 gives them.
func TestGoldenScores(t *testing.T) {
	var cases [][2]string
	golden.ReadJSON(t, filepath.Join(golden.Folder(t, "unigram-scores"), "scores.json"), &cases)
	others := 0
	for _, c := range cases {
		want, err := strconv.ParseFloat(c[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := score(json.Number(c[0])); err != nil || got != want {
			t.Errorf("%s is %v, want %v (%v)", c[0], got, want, err)
		}
		if nearest, _ := strconv.ParseFloat(c[0], 64); nearest != want {
			others++
		}
	}
	golden.Checked(t, "unigram-scores", len(cases))
	if others < 100 {
		t.Errorf("%d of %d cases are not the nearest number", others, len(cases))
	}
	for _, bad := range []json.Number{"1e400", "1e99999999999999999999", "123456789e308"} {
		if got, err := score(bad); err == nil {
			t.Errorf("%s is %v", bad, got)
		}
	}
}
