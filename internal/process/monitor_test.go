package process

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestSlack: threads that the runtime started have the longer slack.
func TestSlack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", syscall.Gettid()))
	if err != nil {
		t.Skip(err)
	}
	if got := strings.TrimSpace(string(slack)); got != "2000000" {
		t.Errorf("the timer slack is %s ns", got)
	}
}
