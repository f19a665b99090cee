package testworld

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant/ledger"
	"popri/internal/rundir"
)

// Content reads every file of a run but those that hold times: the ledger, whose charges are compared by themselves,
// and the events.
func Content(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || strings.HasPrefix(name, "ledger.jsonl") || name == rundir.Events {
			return err
		}
		out[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Charges reads the ledger of the run in dir.
func Charges(t *testing.T, dir string) (ledger.Budget, []ledger.Entry) {
	t.Helper()
	b, e, err := ledger.Read(filepath.Join(dir, rundir.Ledger))
	if err != nil {
		t.Fatal(err)
	}
	return b, e
}
