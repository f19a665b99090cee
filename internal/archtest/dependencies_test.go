package archtest

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// TestDependencies: docs/building.md gives the version of each module that go.mod requires directly.
func TestDependencies(t *testing.T) {
	read := func(name string) string {
		return string(testfile.Read(t, filepath.Join("..", "..", name)))
	}
	page := read("docs/building.md")
	_, table, found := strings.Cut(page, "## Dependencies\n")
	major := regexp.MustCompile(`/v\d+$`)
	direct := regexp.MustCompile(`(?m)^(?:require |\t)(\S+) (v\S+)$`).FindAllStringSubmatch(read("go.mod"), -1)
	if !found || len(direct) == 0 {
		t.Fatalf("docs/building.md has no dependencies, or go.mod none: %d", len(direct))
	}
	for _, m := range direct {
		if want := path.Base(major.ReplaceAllString(m[1], "")) + " " + m[2]; !strings.Contains(table, want) {
			t.Errorf("docs/building.md lacks %q, which go.mod requires", want)
		}
	}
}
