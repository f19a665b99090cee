package run

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

const (
	// childLimit is the number of bytes beyond which no file may grow, for [limitChild].
	childLimit = "POPRI_TEST_LIMIT"
	// childStage is the stage from which the limits hold; "" is the beginning, "report" the report.
	childStage = "POPRI_TEST_STAGE"
	// childMemory is the number of bytes of address space that are left from childStage on, for [limitChild].
	childMemory = "POPRI_TEST_MEMORY"
)

// limitChild makes the process meet the end of the disk, or of the memory, as its environment says.
func limitChild() error {
	if text := os.Getenv(childLimit); text != "" {
		limit, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		signal.Ignore(syscall.SIGXFSZ) // the write then fails instead
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	if text := os.Getenv(childMemory); text != "" {
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
