package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"popri/internal/quote"
)

// TestTyped: the command of a report, pasted into a shell, gives the words that were typed.
func TestTyped(t *testing.T) {
	args := []string{"demo", "--set", `generate.template_header=It's a "kind" of $text; {kind}`, "--watch=127.0.0.1:1",
		"--public", "my texts.jsonl", "--private", "c d.parquet", "--quiet", "--allow-embedded=false"}
	cmd, rest, err := (&app{}).root().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+quote.Shell(typed(cmd)...)).Output()
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	want := []string{"popri", "demo", "--allow-embedded=false", "--private", "c d.parquet", "--public", "my texts.jsonl", "--set",
		args[2], "--watch=127.0.0.1:1"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, want %q (%v)", got, want, err)
	}
}
