package datakey

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"popri/testkit/testfile"
)

func TestKeyIsMadeOnceAndStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "data.key")
	t.Setenv(Variable, path)
	keys := make([][]byte, 8)
	var group sync.WaitGroup
	for i := range keys {
		group.Go(func() {
			var err error
			if keys[i], err = Load(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, k := range keys {
		if len(k) != size || !bytes.Equal(k, keys[0]) {
			t.Fatalf("keys %x and %x", keys[0], k)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("%d files besides the key, want none", len(files)-1)
	}
	t.Setenv(Variable, filepath.Join(t.TempDir(), "data.key"))
	if other, err := Load(); err != nil || bytes.Equal(other, keys[0]) {
		t.Errorf("a second key equals the first (%v)", err)
	}
}

func TestBadKeysAreNamedAndNotQuoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.key")
	t.Setenv(Variable, path)
	for _, content := range []string{"", "abc", strings.Repeat("z", 2*size), strings.Repeat("ab", size+1)} {
		testfile.Write(t, path, content)
		_, err := Load()
		if !errors.Is(err, errKey) || !strings.Contains(err.Error(), path) ||
			content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestNoConfigurationFolder(t *testing.T) {
	t.Setenv(Variable, "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	if _, err := Load(); !errors.Is(err, errKey) || !strings.Contains(err.Error(), Variable) {
		t.Errorf("without a home: %v", err)
	}
}
