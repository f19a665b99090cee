package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testworld"
)

// TestLanFL: nothing is written without --unsafe; with it, the first line says what the claim is worth.
func TestLanFL(t *testing.T) {
	w := testworld.Make(t)
	out := filepath.Join(t.TempDir(), "lanfl")
	asked := []string{"lanfl", "--config", w.File, "--private", w.LabelledPrivate, "--out", out, "--quiet",
		"--participants", "2", "--records", "2", "--samples", "3", "--shots", "0,1", "--repeats", "1", "--test-texts",
		"3", "--set", "downstream.length=6"}
	if code, _, errs := popri(t, asked...); code != 2 || !strings.Contains(errs, "protects nobody") {
		t.Errorf("without --unsafe: exit code %d, %s", code, errs)
	}
	code, text, errs := popri(t, append(asked, "--unsafe")...)
	if code != 0 || !strings.HasPrefix(text, "Not private in the sense of this program") {
		t.Errorf("exit code %d: %s%s", code, text, errs)
	}
	if code, _, errs := popri(t, append(asked, "--unsafe", "--name", "x")...); code != 2 ||
		!strings.Contains(errs, "want label=word") {
		t.Errorf("a name without a word: exit code %d, %s", code, errs)
	}
}
