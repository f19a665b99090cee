package cachedir

import (
	"path/filepath"
	"testing"
)

func TestDir(t *testing.T) {
	t.Setenv(Variable, "/somewhere")
	if dir, err := Dir(); err != nil || dir != "/somewhere" {
		t.Errorf("with %s: %q, %v", Variable, dir, err)
	}
	t.Setenv(Variable, "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	t.Setenv("HOME", "/home/user")
	if dir, err := Dir(); err != nil || filepath.Base(dir) != "popri" || !filepath.IsAbs(dir) {
		t.Errorf("without %s: %q, %v", Variable, dir, err)
	}
}
