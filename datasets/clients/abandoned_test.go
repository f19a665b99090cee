package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/testkit/testfile"
)

// An import removes the clients' text that a killed import left next to its output, and leaves an active import's.
func TestAbandonedSpools(t *testing.T) {
	dir := t.TempDir()
	dead, alive := filepath.Join(dir, ".tmp-import-1"), filepath.Join(dir, ".tmp-import-2")
	for _, spool := range []string{dead, alive} {
		testfile.Write(t, filepath.Join(spool, "spool-1"), "private")
	}
	lock, err := filelock.Folder(alive)
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command(os.Args[0], "-test.run", "^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	unfinished := testfile.Write(t, filepath.Join(dir, atomicfile.TempName("out.parquet", ended.Process.Pid, 1)), "private")
	in := testfile.Write(t, filepath.Join(t.TempDir(), "a.jsonl"), `{"client_id": "a", "text": "x"}`)
	run := func() {
		t.Helper()
		_, err := Import(t.Context(), filepath.Join(dir, "out.parquet"), []ImportFile{{Path: in}},
			ImportOptions{Deduplicate: NoDeduplication})
		if err != nil {
			t.Fatal(err)
		}
	}
	run()
	for _, left := range []string{dead, unfinished} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("what a killed import left is still there: %s (%v)", left, err)
		}
	}
	if _, err := os.Stat(filepath.Join(alive, "spool-1")); err != nil {
		t.Errorf("what another import works with: %v", err)
	}
	lock.Release()
	if run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(alive); !os.IsNotExist(err) {
		t.Errorf("what the other import left is still there (%v)", err)
	}
}

// Import refuses to begin where the file or its manifest cannot be written.
func TestImportIntoFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.parquet", "b.parquet" + ManifestSuffix} {
		testfile.Folder(t, filepath.Join(dir, name))
	}
	for name, want := range map[string]string{"a.parquet": "a.parquet cannot be written",
		"b.parquet": ManifestSuffix + " cannot be written"} {
		_, err := Import(t.Context(), filepath.Join(dir, name), []ImportFile{{Path: "not read"}},
			ImportOptions{Deduplicate: NoDeduplication})
		if !fault.IsUser(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v is there (%v)", left, err)
	}
}
