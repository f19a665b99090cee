package textgen

import "testing"

func TestCutAt(t *testing.T) {
	for _, c := range []struct {
		text  string
		stops []string
		want  string
		found bool
	}{
		{"one. two", nil, "one. two", false},
		{"one. two", []string{";"}, "one. two", false},
		{"one. two", []string{"two", "."}, "one", true},
		{". one", []string{"."}, "", true},
	} {
		if got, found := cutAt(c.text, c.stops); got != c.want || found != c.found {
			t.Errorf("cutAt(%q, %q) = %q, %v", c.text, c.stops, got, found)
		}
	}
}
