package testworld

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
)

// The tests of a package can start its test binary again as a process that they kill or limit. TestMain calls [Serve], a
// test calls [Process].
const (
	childRun    = "POPRI_TEST_RUN"    // folder of the run
	childConfig = "POPRI_TEST_CONFIG" // its configuration file
	// ChildLimit is the number of bytes beyond which no file may grow, for [Limit].
	ChildLimit = "POPRI_TEST_LIMIT"
	// ChildStage is the stage from which the limits hold; "" is the beginning, "report" the report.
	ChildStage = "POPRI_TEST_STAGE"
	// ChildMemory is the number of bytes of address space that are left from ChildStage on, for [Limit].
	ChildMemory = "POPRI_TEST_MEMORY"
)

// Serve calls child with the run's folder and configuration file and ends the process, if a test started it by [Process].
func Serve(child func(dir, config string) error) {
	if dir := os.Getenv(childRun); dir != "" {
		if err := child(dir, os.Getenv(childConfig)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Process prepares a child that does, or goes on with, the run in dir.
func Process(t *testing.T, dir, config string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRun+"="+dir, childConfig+"="+config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// Limit makes the process meet the end of the disk, or of the memory, as its environment says.
func Limit() error {
	if text := os.Getenv(ChildLimit); text != "" {
		limit, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		signal.Ignore(syscall.SIGXFSZ) // the write then fails instead
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	if text := os.Getenv(ChildMemory); text != "" {
		left, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		status, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			return err
		}
		var pages uint64
		if _, err := fmt.Sscan(string(status), &pages); err != nil {
			return err
		}
		limit := pages*uint64(os.Getpagesize()) + left
		return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit})
	}
	return nil
}
