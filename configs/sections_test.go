package configs

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// A registered section is set, checked, printed and loaded like the others, and a copy of a configuration has its own.
func TestRegisteredSection(t *testing.T) {
	file := testfile.Write(t, filepath.Join(t.TempDir(), "c.yaml"), "sorting: {share: 0.25}\n")
	t.Setenv("POPRI_SORTING_WORDS", "a,b")
	c, err := Load(LoadOptions{File: file, Env: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := (settings{0.25, []string{"a", "b"}}); !reflect.DeepEqual(sorting.Of(*c), want) {
		t.Errorf("%+v, want %+v", sorting.Of(*c), want)
	}
	other := *c
	if err := other.Set("sorting.share", "1"); err != nil {
		t.Error(err)
	}
	if sorting.Of(*c).Share != 0.25 || sorting.Of(other).Share != 1 || sorting.Of(Config{}).Share != 0.5 {
		t.Errorf("%v, %v, %v", sorting.Of(*c), sorting.Of(other), sorting.Of(Config{}))
	}
	testfile.Write(t, file, other.YAML())
	if again, err := Load(LoadOptions{File: file}); err != nil || !reflect.DeepEqual(*again, other) {
		t.Errorf("%+v, want %+v (%v)", again, other, err)
	}
}

// Methods and their sections report what is impossible beside everything else.
func TestRegisteredChecks(t *testing.T) {
	for set, want := range map[string]string{
		"sorting.share=2":                  "--set: sorting.share: is 2, must be 0 to 1",
		"sorting.shar=2":                   "unknown key; did you mean sorting.share?",
		"sorting.share=x":                  `is the text "x", must be a number`,
		"method=other":                     `is "other", available: popri, sorting, learning`,
		"method=sorting aggregate.least=5": `aggregate.least: is 5, must be 0 where method is "sorting"`,
		"method=sorting aggregate.least=5 sorting.share=-1":            "2 problems",
		"method=learning privacy.unsafe_diagnostics=true":              "privacy.unsafe_diagnostics: is true, must be false",
		"method=learning fed.sampling=poisson fed.clients_per_round=3": `fed.sampling: is "poisson", must be full or tree where method`,
		"fed.sampling=tree fed.clients_per_round=3":                    `fed.sampling: is "tree", which needs the method learning: the nodes`,
		"trainer.select=validation":                                    `needs a method that trains the small model: learning`,
	} {
		if _, err := Load(LoadOptions{Set: strings.Fields(set)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", set, err, want)
		}
	}
	c, err := Load(LoadOptions{Set: []string{"method=learning", "trainer.select=fid"}})
	if err != nil || !c.Learns() || c.SelectsBy() != ValidationLoss {
		t.Errorf("%v", err)
	}
}
