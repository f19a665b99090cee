package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWarnsOfSplits: an import and the check of its file say that an evaluation will lack clients, and where a file of another
// format is no client file, the error says what makes one of it.
func TestWarnsOfSplits(t *testing.T) {
	file := write(t, t.TempDir(), "posts.jsonl", `{"author":"a","body":"an early text","created":"2020-01-02"}
{"author":"b","body":"a late text","created":"2024-01-02"}
`)
	out := filepath.Join(t.TempDir(), "clients.parquet")
	code, _, errs := popri(t, "data", "import", file, "--client", "author", "--text", "body", "--date", "created",
		"--test-from", "2024", "--out", out)
	if code != 0 || !strings.Contains(errs, "no validation clients") || strings.Contains(errs, "no test clients") {
		t.Errorf("import: exit code %d: %s", code, errs)
	}
	if code, _, errs := popri(t, "data", "check", out); code != 0 || !strings.Contains(errs, "no validation clients") {
		t.Errorf("check: exit code %d: %s", code, errs)
	}
	if code, _, errs := popri(t, "data", "check", file); code != exitUsage || !strings.Contains(errs, "popri data import") {
		t.Errorf("check of JSON lines: exit code %d: %s", code, errs)
	}
}
