package configs

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// A list of numbers can be set wherever a setting can, and comes back from the printed configuration.
func TestListOfNumbers(t *testing.T) {
	want := []float64{1e-4, 2}
	t.Setenv("POPRI_DOWNSTREAM_LEARNING_RATES", "1e-4, 2")
	c, err := Load(LoadOptions{Env: true})
	if err != nil || !reflect.DeepEqual(c.Downstream.LearningRates, want) {
		t.Fatalf("environment: %v, %v", c, err)
	}
	file := testfile.Write(t, filepath.Join(t.TempDir(), "config.yaml"), c.YAML())
	for _, opt := range []LoadOptions{{File: file}, {Set: []string{"downstream.learning_rates=1e-4,2"}},
		{Set: []string{"downstream.learning_rates=[1e-4, 2]"}}} {
		c, err := Load(opt)
		if err != nil || !reflect.DeepEqual(c.Downstream.LearningRates, want) {
			t.Errorf("%+v: %v, %v", opt, c, err)
		}
	}
	_, err = Load(LoadOptions{Set: []string{"downstream.learning_rates=1e-4,fast"}})
	if p := problems(t, err); len(p) != 1 || !strings.Contains(p[0].Text, "must be a list of numbers") {
		t.Error(err)
	}
}

// A text that is not UTF-8 would become another one in the files of a run.
func TestTextsAreUTF8(t *testing.T) {
	for _, k := range Keys() {
		if k.Type != "text" {
			continue
		}
		c := Default()
		reflect.ValueOf(&c).Elem().FieldByIndex(k.index).SetString("a\xff")
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), k.Name+": is \"a\\xff\", must be UTF-8") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

// A setting by the name that another library gives it is answered with popri's, with a section and without.
func TestNamesOfOtherLibraries(t *testing.T) {
	for _, name := range []string{"lora_alpha", "dpo.num_train_epochs"} {
		if p := unknownKey("--set", name); !strings.Contains(p.Text, "what other libraries call "+lastPart(name)) {
			t.Errorf("%s: %s", name, p.Text)
		}
	}
}
