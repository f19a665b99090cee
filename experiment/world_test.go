package experiment

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"popri/configs"
	"popri/internal/testworld"
	"popri/rundir"
	"popri/trainer"
)

// What a test's child process is to do, by environment variables.
const (
	childRun    = "POPRI_TEST_RUN"    // folder of the run
	childConfig = "POPRI_TEST_CONFIG" // its configuration file
	childLimit  = "POPRI_TEST_LIMIT"  // bytes beyond which no file may grow
	childStage  = "POPRI_TEST_STAGE"  // stage from which childLimit holds; "" is the beginning, "report" the report
	childMemory = "POPRI_TEST_MEMORY" // bytes of address space that are left from childStage on
	childPairs  = "POPRI_TEST_PAIRS"  // pairs to train on instead of doing a run
	childMerge  = "POPRI_TEST_MERGE"  // key and partial sums, on a line each, to merge into the run's round 1 instead
)

// TestMain makes the test binary serve as the process that tests start and kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childRun); dir != "" {
		if err := child(dir, os.Getenv(childConfig)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := testworld.Main(m) // the children inherit its key
	if shared.world != nil {
		os.RemoveAll(shared.world.Dir)
	}
	os.Exit(code)
}

// child starts the run in dir, or goes on with it.
func child(dir, config string) error {
	stage := os.Getenv(childStage)
	if stage == "" {
		if err := limit(); err != nil {
			return err
		}
	}
	if files := os.Getenv(childMerge); files != "" {
		list := strings.Split(files, "\n")
		_, err := MergeShards(MergeOptions{Dir: dir, Round: 1, Key: list[0], Parts: list[1:]})
		return err
	}
	if pairs := os.Getenv(childPairs); pairs != "" {
		return preferChild(dir, config, pairs)
	}
	o := Options{Dir: dir, Resume: rundir.Exists(dir)}
	if !o.Resume {
		c, err := configs.Load(configs.LoadOptions{File: config})
		if err != nil {
			return err
		}
		o.Config = *c
	}
	o.Events.StageBegin = func(s trainer.Stage) {
		if stage != "" && strings.HasPrefix(s.Name, stage) {
			if err := limit(); err != nil {
				panic(err)
			}
		}
	}
	if err := train(context.Background(), o); err != nil || stage != "report" {
		return err
	}
	if err := limit(); err != nil {
		return err
	}
	_, err := WriteReport(dir)
	return err
}

// limit makes the process meet the end of the disk, or of the memory, as its environment says.
func limit() error {
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

// preferChild does the preference training in dir, or goes on with it.
func preferChild(dir, config, pairs string) error {
	o := PreferOptions{Pairs: pairs, Out: dir, Resume: exists(filepath.Join(dir, SettingsFile))}
	if !o.Resume {
		c, err := configs.Load(configs.LoadOptions{File: config})
		if err != nil {
			return err
		}
		o.Config = *c
	}
	_, err := Prefer(context.Background(), o)
	return err
}

var shared struct {
	once  sync.Once
	world *testworld.World
	err   error
}

// world returns the one that all tests of the package share and none changes.
func world(t *testing.T) *testworld.World {
	t.Helper()
	shared.once.Do(func() {
		var dir string
		if dir, shared.err = os.MkdirTemp("", "popri-world-"); shared.err == nil {
			shared.world, shared.err = testworld.New(dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// train runs one session to its end.
func train(ctx context.Context, o Options) error {
	s, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Train(ctx)
}
