package run

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/testkit/testworld"
)

// systemCalls are calls that a disk or a limit can refuse, with the error that it gives.
var systemCalls = []struct{ call, err string }{
	{"openat", "EIO"}, {"openat", "EMFILE"}, {"openat", "ENOSPC"}, {"read", "EIO"}, {"pread64", "EIO"},
	{"write", "ENOSPC"}, {"write", "EIO"},
	{"fsync", "EIO"}, {"close", "EIO"}, {"renameat", "EIO"}, {"linkat", "EIO"}, {"mkdirat", "ENOSPC"},
	{"unlinkat", "EIO"},
	{"getdents64", "EIO"}, {"newfstatat", "EIO"},
}

// TestSystemCallsFail lets system calls of a run fail at random moments, by strace. Whether the run ends with an error
// or does without the call, it can be gone on with and ends as one that was left alone.
func TestSystemCallsFail(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil || exec.Command(strace, "-e", "trace=fsync", "true").Run() != nil {
		t.Skip("strace is not installed, or may not trace here")
	}
	w := testworld.Shared(t)
	want := t.TempDir()
	mustTrain(t, Options{Config: w.Config, Dir: want})
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	trials, failed, ended := testworld.Trials(t, 5), 0, 0
	for tried := 0; failed < trials && tried < 10*trials && !testworld.Late(t); tried++ {
		c := systemCalls[random.IntN(len(systemCalls))]
		dir, log := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "strace")
		cmd, _ := testworld.Process(t, dir, w.File)
		// Calls are counted by thread; some threads make a few, some a hundred.
		from := int(math.Exp(random.Float64() * math.Log(100)))
		cmd.Path, cmd.Args = strace, []string{"strace", "-f", "--seccomp-bpf", "-y", "-o", log, "-e", "trace=" + c.call,
			"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", c.call, c.err, from), os.Args[0]}
		err := cmd.Run()
		traced, _ := os.ReadFile(log)
		hit := false
		for line := range strings.Lines(string(traced)) {
			hit = hit || strings.Contains(line, "INJECTED") && strings.Contains(line, dir)
		}
		if hit {
			if failed++; err != nil {
				ended++
			}
		}
		again, out := testworld.Process(t, dir, w.File)
		if err := again.Run(); err != nil {
			t.Fatalf("after %s failed by %s, call %d of a thread (seed %d): %v: %s", c.call, c.err, from, seed, err,
				out)
		}
		if sameRun(t, dir, want); t.Failed() {
			t.Fatalf("%s failed by %s, call %d of a thread (seed %d)", c.call, c.err, from, seed)
		}
	}
	t.Logf("faults: %d failed system calls (of a run's folder; %d ended the process)", failed, ended)
	if failed == 0 {
		t.Error("no system call failed")
	}
}
