package popri

import (
	"testing"

	"popri/configs"
	"popri/scoring"
)

func TestConfigurationAndCodeKnowTheSameDuplicates(t *testing.T) {
	seen := map[scoring.Duplicates]string{}
	for _, name := range configs.Choices("scoring.duplicates") {
		d := duplicates(name)
		if other, twice := seen[d]; twice {
			t.Errorf("%s and %s both mean %s", name, other, d)
		}
		seen[d] = name
		if _, err := scoring.Rank([]float64{1, 2}, []string{"a", "b"}, 2, 2, d); err != nil {
			t.Error(err)
		}
	}
}
