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
		{"demo", []string{"scoring.features=fourier"}, ""},
		{"demo", []string{"scoring.features=moments", "scoring.feature_count=2"}, ""},
		{"demo-rounds", []string{"scoring.features=histogram", "method=public_selection"}, ""},
		{"demo-rounds", []string{"scoring.denoise=pool"}, ""},
		{"demo-rounds", []string{"scoring.denoise=pool", "scoring.release=compact"}, ""},
		{"demo-rounds", []string{"scoring.features=histogram"}, `scoring.features: is "histogram", which needs scoring.release "once"`},
		{"demo", []string{"scoring.features=wavelets"}, `scoring.features: is "wavelets", available: mean, fourier, histogram, moments`},
		{"demo-rounds", []string{"scoring.features=wavelets"}, `scoring.features: is "wavelets", available`},
		{"demo", []string{"scoring.feature_count=1"}, "scoring.feature_count: is 1, must be 2 to 65536"},
		{"demo", []string{"scoring.denoise=pool"}, `scoring.denoise: is "pool", which needs scoring.release "rounds" or "compact"`},
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
