package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/rundir"
	"popri/testkit/testfile"
)

// shut is a folder in which nothing can be made, no matter who the user is.
func shut(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		return dir
	}
	if _, err := os.Stat("/sys/kernel"); err != nil {
		t.Skip("no folder is closed to root here")
	}
	return "/sys/kernel"
}

// refusedUnread checks that a command names the output that cannot be written before it reads an input, and leaves
// nothing in dir.
func refusedUnread(t *testing.T, dir, output, input string, args []string) {
	t.Helper()
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, errs := popri(t, append(args, "--quiet")...)
	if code != exitUsage || stdout != "" || !strings.Contains(errs, output+" cannot be written: ") ||
		strings.Contains(errs, input) {
		t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, errs)
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("%v: %v is there (%v), before %v", args, after, err, before)
	}
}

// TestUnwritableFolders: each verb that makes a folder says before any work that it cannot be made, and leaves nothing.
func TestUnwritableFolders(t *testing.T) {
	dir, closed := t.TempDir(), shut(t)
	file, unread := write(t, dir, "file", ""), filepath.Join(dir, "unread")
	verbs := [][]string{
		{"dpo", "--pairs", unread, "--model", unread},
		{"pretrain", "--public", unread},
		{"eval", "--synthetic", unread, "--private", unread, "--model", unread},
		{"data", "push-ready", unread},
		{"model", "import", unread},
		{"ablate", "--over", "dpo.beta=0.1,0.2", "--set", "model.path=" + unread},
		{"reproduce", "table4-rank", "--set", "model.path=" + unread},
		{"run", "--set", "model.path=" + unread},
		{"run", "--resume"},
		{"demo", "--set", "downstream.model=" + unread},
	}
	for _, verb := range verbs {
		for _, out := range []string{file, filepath.Join(file, "new"), filepath.Join(file, "far", "new"), closed,
			filepath.Join(closed, "new")} {
			refusedUnread(t, dir, out, unread, append(verb, "--out", out))
		}
	}
}

// TestUnwritableFiles: the same for the verbs that write a file.
func TestUnwritableFiles(t *testing.T) {
	dir, closed := t.TempDir(), shut(t)
	file, unread := write(t, dir, "file", ""), filepath.Join(dir, "unread")
	folder := testfile.Folder(t, filepath.Join(dir, "folder.svg"))
	verbs := [][]string{
		{"compare", unread, "--out"},
		{"data", "import", unread, "--out"},
		{"data", "build", unread, "--out"},
		{"data", "build", "godoc", "--out", filepath.Join(dir, "clients.parquet"), "--public"},
		{"dpo", "--pairs", unread, "--model", unread, "--out", filepath.Join(dir, "adapter"), "--reference"},
	}
	for _, verb := range verbs {
		for _, out := range []string{filepath.Join(dir, "missing", "new.svg"), filepath.Join(file, "new.svg"),
			filepath.Join(closed, "new.svg"), folder} {
			if out == folder && (verb[0] == "dpo") {
				continue // what is there is read, or not replaced
			}
			refusedUnread(t, dir, out, unread, append(verb, out))
		}
	}
	write(t, dir, rundir.Config, "unread")
	testfile.Folder(t, filepath.Join(dir, rundir.Eval))
	refusedUnread(t, dir, filepath.Join(dir, rundir.Eval), "unread", []string{"eval", "--run", dir})
}
