package configs

import (
	"strings"
	"testing"
)

// What clients are asked for, how often and how the answers are read must fit together; the error names key and value.
func TestReleaseSettings(t *testing.T) {
	for _, c := range []struct {
		preset string
		set    []string
		want   string // "" for none
	}{
		{"demo", []string{"scoring.form=2"}, ""},
		{"demo-rounds", []string{"scoring.form=0.3", "method=sorting"}, ""},
		{"demo-smollm2", []string{"fed.clients=10", "aggregate.least=7", "data.private=none"}, ""},
		{"demo-rounds", []string{"scoring.form=0.3"}, `scoring.form: is 0.3, which needs scoring.release "once"`},
		{"demo", []string{"scoring.form=-1"}, "scoring.form: is -1, must be 0 to 10"},
		{"demo", []string{"scoring.features=fourier"}, "scoring.features"},
		{"demo", []string{"scoring.denoise=pool"}, `scoring.denoise: is "pool", available: none, project`},
	} {
		_, err := Load(LoadOptions{Preset: c.preset, Set: c.set})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s, %q: %v", c.preset, c.set, err)
			}
			continue
		}
		if found := problems(t, err); len(found) != 1 || !strings.Contains(found[0].String(), c.want) {
			t.Errorf("%s, %q: %v, want %s", c.preset, c.set, err, c.want)
		}
	}
}
