package inputs

import (
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/methods"
)

// Sections and methods of [owners] exist.
func TestOwners(t *testing.T) {
	for section, of := range owners {
		if !slices.ContainsFunc(configs.Keys(), func(k configs.Key) bool { return strings.HasPrefix(k.Name, section+".") }) {
			t.Errorf("no key has the section %s", section)
		}
		for _, name := range of {
			c := configs.Default()
			c.Method = name
			if methods.Of(c).Name != name {
				t.Errorf("%s: no method has the name %s", section, name)
			}
		}
	}
}
