package testworld

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The tests of a package can start its test binary again as a process that they kill. TestMain calls [Serve], a
// test calls [Process].
const (
	childRun    = "POPRI_TEST_RUN"    // folder of the run
	childConfig = "POPRI_TEST_CONFIG" // its configuration file
)

// Serve calls child with the run's folder and configuration file and ends the process, if a test started it by
// [Process].
func Serve(child func(dir, config string) error) {
	if dir := os.Getenv(childRun); dir != "" {
		if err := child(dir, os.Getenv(childConfig)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Process prepares a child that does, or continues with, the run in dir.
func Process(t *testing.T, dir, config string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRun+"="+dir, childConfig+"="+config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}
