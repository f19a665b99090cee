package configs

import (
	"strings"
	"testing"
)

// TestKindsNeed: a search for kinds of text is refused where it could not work, with the key that stands in its way.
func TestKindsNeed(t *testing.T) {
	for _, c := range []struct{ preset, set, want string }{
		{"demo", "", "template_header that holds {kind}"},
		{"demo-smollm2", "generate.quote=public", `generate.quote "scored"`},
		{"demo-smollm2", "generate.by_label=true", "generate.by_label to be false"},
		{"demo-rounds", "", `scoring.release "once"`},
		{"demo-smollm2", "", ""},
	} {
		set := []string{"generate.kinds=general"}
		if c.set != "" {
			set = append(set, c.set)
		}
		_, err := Load(LoadOptions{Preset: c.preset, Set: set})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %q: %v, want %q", c.preset, c.set, err, c.want)
		}
	}
}
