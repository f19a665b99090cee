package main

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"popri/testkit/testworld"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" && len(os.Args) > 1 &&
		slices.Contains([]string{"ablate", "run", "data"}, os.Args[1]) {
		signal.Ignore(syscall.SIGXFSZ) // a write beyond the limit of [limitedTo] then fails instead
		main()
	}
	os.Exit(testworld.Main(m))
}

// limitedTo prepares the command popri in a process of its own, with limits that a shell's ulimit sets.
func limitedTo(t *testing.T, limits string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh",
		append([]string{"-c", "ulimit " + limits + `; exec "$0" "$@"`, os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}
