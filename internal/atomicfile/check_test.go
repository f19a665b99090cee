package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// closed is a folder in which nothing can be made, no matter who the user is.
func closed(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if Check(filepath.Join(dir, "file")) != nil {
		return dir
	}
	// Root may write anywhere but into the kernel's folders.
	if _, err := os.Stat("/sys/kernel"); err != nil {
		t.Skip("no folder is closed to root here")
	}
	return "/sys/kernel"
}

func TestCheckFolder(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	testfile.Write(t, file, "")
	if err := os.Symlink(filepath.Join(dir, "nothing"), link); err != nil {
		t.Skip(err)
	}
	shut := closed(t)
	for path, want := range map[string]string{
		file:                                file + " is a file",
		filepath.Join(file, "below"):        file + " is a file",
		filepath.Join(file, "far", "below"): file + " is a file",
		link:                                link + " is a link",
		filepath.Join(link, "below"):        link + " is a link",
		shut:                                shut + ": ",
		filepath.Join(shut, "new", "below"): shut + ": ",
		filepath.Join(dir, strings.Repeat("n", 300)): "too long",
	} {
		if err := CheckFolder(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	t.Chdir(dir)
	for _, path := range []string{dir, filepath.Join(dir, "new"), filepath.Join("new", "below"), "", "."} {
		if err := CheckFolder(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v is there (%v)", left, err)
	}
}
