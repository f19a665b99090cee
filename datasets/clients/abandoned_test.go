package clients

import (
	"os"
	"path/filepath"
	"testing"

	"popri/internal/filelock"
)

// An import removes the clients' text that a killed one left beside its output, and leaves that of one that is still at work.
func TestAbandonedSpools(t *testing.T) {
	dir := t.TempDir()
	dead, alive := filepath.Join(dir, ".tmp-import-1"), filepath.Join(dir, ".tmp-import-2")
	for _, spool := range []string{dead, alive} {
		if err := os.Mkdir(spool, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(spool, "spool-1"), []byte("private"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := filelock.Folder(alive)
	if err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(in, []byte(`{"client_id": "a", "text": "x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		_, err := Import(t.Context(), filepath.Join(dir, "out.parquet"), []ImportFile{{Path: in}}, ImportOptions{Deduplicate: NoDeduplication})
		if err != nil {
			t.Fatal(err)
		}
	}
	run()
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("what a killed import left is still there (%v)", err)
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
