package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/testkit/testfile"
)

// quick shows life far more often than it has to, so that a busy machine breaks no test.
var quick = Clock{Beat: 5 * time.Millisecond, Stale: 500 * time.Millisecond}

func hold(t *testing.T, path string) (context.Context, *Lease) {
	t.Helper()
	ctx, l, err := Hold(t.Context(), path, quick, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, l
}

// elsewhere writes the lease of a holder on another machine.
func elsewhere(t *testing.T, path string, beat int) {
	t.Helper()
	testfile.WriteJSON(t, path, owner{Host: "far", Boot: "another", PID: 1, Nonce: "theirs", Beat: beat})
}

func TestSecondHolderWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0001")
	_, first := hold(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 3*quick.Stale)
	defer cancel()
	told := 0
	if _, _, err := Hold(ctx, path, quick, func(string) { told++ }); !errors.Is(err, context.DeadlineExceeded) ||
		told != 1 {
		t.Fatalf("while the first lives: %v, told %d times", err, told)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	_, second := hold(t, path)
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the release the file is there: %v", err)
	}
}

func TestDeadHolderOfThisMachineIsReplacedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0001")
	_, first := hold(t, path)
	first.stop() // as if it was killed: the file stays, the system's lock goes
	first.ended.Wait()
	first.lock.Release()
	if first.owner.Boot == "" {
		t.Skip("this system does not tell its boots apart")
	}
	slow := Clock{Beat: time.Hour, Stale: time.Hour}
	_, second, err := Hold(t.Context(), path, slow, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
}

func TestHolderElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0001")
	beat := 0
	elsewhere(t, path, beat)
	// While its number grows, it lives, however long it takes.
	living, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for living.Err() == nil {
			beat++
			elsewhere(t, path, beat)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*quick.Stale)
	defer cancel()
	if _, _, err := Hold(ctx, path, quick, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the holder lives: %v", err)
	}
	stop()
	<-stopped
	begun := time.Now()
	_, l := hold(t, path)
	if time.Since(begun) < quick.Stale {
		t.Errorf("taken over after %v", time.Since(begun))
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestLostLeaseEndsTheWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0001")
	ctx, l := hold(t, path)
	for context.Cause(ctx) == nil { // a beat may be written over the theft once
		elsewhere(t, path, 0)
		time.Sleep(quick.Beat)
	}
	if !errors.Is(context.Cause(ctx), errTaken) || !strings.Contains(context.Cause(ctx).Error(), path) {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "theirs") {
		t.Errorf("%v: the other's lease is gone: %s", err, b)
	}
}
