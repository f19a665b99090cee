package filelock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecondAcquireIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(path); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("second lock: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(); err != nil {
		t.Errorf("releasing twice: %v", err)
	}
	again, err := Acquire(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again.Release()
}

// The test binary runs itself: the child takes the lock, the parent sees it held, kills the child, and gets it.
func TestLockGoesWithItsProcess(t *testing.T) {
	if path := os.Getenv("FILELOCK_CHILD"); path != "" {
		if _, err := Acquire(path); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("locked")
		os.Stdin.Read(make([]byte, 1))
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	child := exec.Command(os.Args[0], "-test.run", "^TestLockGoesWithItsProcess$")
	child.Env = append(os.Environ(), "FILELOCK_CHILD="+path)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "locked\n" {
		t.Fatalf("child: %q, %v", line, err)
	}
	if _, err := Acquire(path); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", child.Process.Pid)) {
		t.Errorf("while the child holds it: %v", err)
	}
	child.Process.Kill()
	child.Wait()
	l, err := Acquire(path)
	if err != nil {
		t.Fatalf("after the child was killed: %v", err)
	}
	l.Release()
}

func TestAcquireInMissingFolder(t *testing.T) {
	if _, err := Acquire(filepath.Join(t.TempDir(), "no", "lock")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("missing folder: %v", err)
	}
}
