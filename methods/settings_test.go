package methods

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/testkit/testfile"
)

// Every file of testdata/bad says in its first lines what the error must contain.
func TestBadSettings(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content := testfile.Read(t, file)
		_, err = configs.Load(configs.LoadOptions{File: file})
		if !errors.As(err, new(*configs.Invalid)) {
			t.Errorf("%s: %v", file, err)
			continue
		}
		wants := 0
		for line := range strings.Lines(string(content)) {
			if want, ok := strings.CutPrefix(strings.TrimSpace(line), "# want: "); ok {
				wants++
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error lacks %q:\n%v", file, want, err)
				}
			}
		}
		if wants == 0 {
			t.Errorf("%s does not say what it wants", file)
		}
	}
}
