package datasets

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/testkit/testfile"
)

func TestRead(t *testing.T) {
	all, err := ReadKinds(generalKinds)
	if err != nil || len(all) < 200 {
		t.Fatalf("the list that comes with the program has %d kinds (%v)", len(all), err)
	}
	for _, kind := range all {
		if strings.TrimSpace(kind) != kind || strings.HasSuffix(kind, ".") {
			t.Errorf("%q does not stand well in a sentence", kind)
		}
	}
	file := func(text string) string {
		return testfile.Write(t, filepath.Join(t.TempDir(), "kinds.txt"), text)
	}
	got, err := ReadKinds(file("\ufeffcase notes\r\n\n letters  to patients \ncase notes\n"))
	if want := []string{"case notes", "letters to patients"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
	for text, want := range map[string]string{
		"":                                    "names 0 kinds",
		"one\none\n":                          "names 1 kinds",
		"one\n\xff\xfe":                       "line 2 is not UTF-8",
		"one\n" + strings.Repeat("word ", 60): "line 2 has 299 bytes",
	} {
		if _, err := ReadKinds(file(text)); !fault.IsUser(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q gives %v, want %q", text, err, want)
		}
	}
	if _, err := ReadKinds("missing.txt"); !fault.IsUser(err) || !strings.Contains(err.Error(), "missing.txt") {
		t.Errorf("a missing file gives %v", err)
	}
}
