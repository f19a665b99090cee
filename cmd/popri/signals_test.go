package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestImportEndedBySignals: Ctrl-C, TERM and a closed terminal (HUP) end an import in order, and no client's text is
// left. The next import removes what a killed one leaves. A program that was started to outlive its terminal continues.
func TestImportEndedBySignals(t *testing.T) {
	// Where nohup started the tests, HUP is ignored, and it would be in what they start; a signal that is caught is not
	// inherited.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	var lines strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&lines,
			"{\"client_id\": \"%d\", \"text\": \"The text of client number %d, who writes of %d things.\"}\n", i, i,
			i*i)
	}
	in := write(t, t.TempDir(), "in.jsonl", lines.String())
	// interrupted begins an import, sends the signal as soon as texts are in the folder, and waits for the end.
	interrupted := func(dir string, s syscall.Signal, trap string) *os.ProcessState {
		t.Helper()
		spools := func() []string {
			paths, _ := filepath.Glob(filepath.Join(dir, ".tmp-import-*", "*"))
			return paths
		}
		before := spools()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", trap+`exec "$0" "$@"`, os.Args[0], "data", "import", in,
			"--deduplicate", "near", "--quiet", "--out", filepath.Join(dir, "out.parquet"))
		cmd.Env = append(os.Environ(), asCommand+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for begun := time.Now(); !slices.ContainsFunc(spools(),
			func(s string) bool { return !slices.Contains(before, s) }); time.Sleep(time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatal("the import writes nothing")
			}
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		return cmd.ProcessState
	}
	left := func(dir string) []string {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		return names
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		dir := t.TempDir()
		if state := interrupted(dir, s, ""); state.ExitCode() != exitInterrupted || len(left(dir)) > 0 {
			t.Errorf("%v: %v, %q is left", s, state, left(dir))
		}
	}
	dir := t.TempDir()
	if state := interrupted(dir, syscall.SIGKILL, ""); state.Exited() || len(left(dir)) != 1 {
		t.Errorf("killed: %v, %q is left", state, left(dir))
	}
	if state := interrupted(dir, syscall.SIGHUP, "trap '' HUP; "); state.ExitCode() != 0 || len(left(dir)) != 2 {
		t.Errorf("started to outlive its terminal: %v, %q is there, want the file and its manifest", state, left(dir))
	}
}
