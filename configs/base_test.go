package configs

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// A file's base is the preset that its settings change, as --preset is, and the two must not differ.
func TestBase(t *testing.T) {
	load := func(preset, content string, set ...string) (*Config, error) {
		t.Helper()
		file := testfile.Write(t, filepath.Join(t.TempDir(), "c.yaml"), content)
		return Load(LoadOptions{Preset: preset, File: file, Set: set})
	}
	want, err := Load(LoadOptions{Preset: "demo-rounds", Set: []string{"seed=2"}})
	if err != nil {
		t.Fatal(err)
	}
	const former = "trainer: {max_hours: 0}\nwarmup: {steps: 0}\n" // as run folders of earlier versions have it
	for _, preset := range []string{"", "demo-rounds"} {
		if c, err := load(preset, "seed: 2\nbase: demo-rounds\n"+former); err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("preset %q: %+v, %v", preset, c, err)
		}
	}
	for content, text := range map[string]string{
		"base: demo-round":    `c.yaml: base: is "demo-round", must be one of demo, demo-model, demo-rounds`,
		"base: paper-biorxiv": `c.yaml: base: is "paper-biorxiv", but the preset "demo" is asked for`,
		"base: [demo]":        "c.yaml:1: base: is a list, must be the name of a preset",
		"base: demo\nbase: x": "c.yaml:2: base: stands twice, first in line 1",
	} {
		preset := ""
		if strings.Contains(text, "asked for") {
			preset = "demo"
		}
		if _, err := load(preset, content); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s", content, err, text)
		}
	}
	_, err = load("", "dpo: {base: demo}", "base=demo-rounds")
	for _, text := range []string{"c.yaml:1: dpo.base: unknown key", "--set: base: unknown key"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v lacks %q", err, text)
		}
	}
}

// What viper and mapstructure take without a word: a section that is none is dropped, keys count in any case, an empty
// value is no value, a fraction is cut to a whole number, a large one becomes negative.
func TestWhatViperAccepts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	for content, text := range map[string]string{
		"synthetic: 3":          "c.yaml:1: synthetic: is 3, must be a section of settings",
		"dpo:\n  Beta: 1":       "c.yaml:2: dpo.Beta: unknown key; did you mean dpo.beta?",
		"dpo:\n  beta:":         "c.yaml:2: dpo.beta: is empty, must be a number",
		"model: {threads: 1.5}": "c.yaml:1: model.threads: is 1.5, must be a whole number",
		"model: {threads: 18446744073709551615}": "c.yaml:1: model.threads: is 18446744073709551615, which is out " +
			"of range",
		"trainer: {max_hours: 2}":                   "c.yaml:1: trainer.max_hours: is a setting of earlier versions, of which this one can only read 0",
		"seed: {a: 1}":                              "c.yaml:1: seed: is a section, must be a whole number",
		"data: {since: 1945-06-30}":                 "data.since: is 1945-06-30 00:00:00 +0000 UTC, must be a text",
		"dpo: {beta: \"0.1\"}":                      `dpo.beta: is the text "0.1", must be a number`,
		"lora: {targets: a}":                        `lora.targets: is the text "a", must be a list of texts`,
		"dpo: &a {beta: *a}":                        "dpo.beta: anchor 'a' value contains itself",
		"dpo: {dpo.beta: 1}\nprivacy.epsilon: four": `privacy.epsilon: is the text "four"`,
	} {
		testfile.Write(t, file, content)
		if _, err := Load(LoadOptions{File: file}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s", content, err, text)
		}
	}
}
