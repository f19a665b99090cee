package modelcache

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

func TestInstalled(t *testing.T) {
	root := t.TempDir()
	t.Setenv("POPRI_CACHE", root)
	for _, s := range Sources {
		if b, err := hex.DecodeString(s.SHA256); err != nil || len(b) != 32 {
			t.Errorf("%s: the checksum is %q", s.Name, s.SHA256)
		}
		if _, err := path.Match(s.Member, "x"); err != nil || (s.Member == "") == (s.Folder == "") {
			t.Errorf("%s: member %q, folder %q, %v", s.Name, s.Member, s.Folder, err)
		}
		if again, ok := Find(s.Name); !ok || again != s {
			t.Errorf("%s is not found", s.Name)
		}
		_, err := s.Installed()
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make demo ") {
			t.Errorf("%s: %v", s.Name, err)
		}
		testfile.Folder(t, s.Dir(root))
		if dir, err := s.Installed(); err != nil || dir != s.Dir(root) || filepath.Dir(filepath.Dir(dir)) != root {
			t.Errorf("%s: %s, %v", s.Name, dir, err)
		}
	}
	if _, ok := Find("none"); ok {
		t.Error("a model of no name is found")
	}
}
