package inputs

import (
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/methods"
)

// Sections of methods exist, and a newer key of one passes in the runs of methods that do not read it, and in no
// others.
func TestSections(t *testing.T) {
	for _, d := range methods.All {
		if d.Section == "" {
			continue
		}
		at := slices.IndexFunc(configs.Keys(),
			func(k configs.Key) bool { return strings.HasPrefix(k.Name, d.Section+".") })
		if at < 0 {
			t.Errorf("%s: no key has the section %s", d.Name, d.Section)
			continue
		}
		for _, other := range methods.All {
			in := Inputs{Settings: map[string]string{"method": other.Name}}
			if got, want := in.keeps(configs.Keys()[at].Name,
				"no value that it ever had"), other.Section != d.Section; got != want {
				t.Errorf("%s in a run of %s passes: %v", configs.Keys()[at].Name, other.Name, got)
			}
		}
	}
}
