package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"popri/study"
	"popri/study/grid"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// engineVariable names the engines that run on this machine for tests: "slurm,ray". scripts/engines_jobs.sh sets it.
const engineVariable = "POPRI_TEST_ENGINES"

func needsEngine(t *testing.T, name string) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv(engineVariable), ","), name) {
		t.Skipf("%s is not among the engines that $%s names: make engines-jobs installs and starts them", name,
			engineVariable)
	}
}

// six runs six small cells in a folder of its own, with flags, and returns the bytes of ablation.json.
func six(t *testing.T, w *testworld.World, flags ...string) []byte {
	t.Helper()
	args := append([]string{"ablate", "--config", w.File, "--set", "trainer.rounds=1", "--over",
		"dpo.beta=0.05,0.1,0.2", "--seeds", "2", "--out", "grid"}, flags...)
	code, _, errs := popri(t, args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var steps []string
	for line := range strings.Lines(errs) {
		if strings.HasPrefix(line, "cell ") {
			steps = append(steps, line)
		}
	}
	t.Log(strings.Join(steps, ""))
	b := testfile.Read(t, filepath.Join("grid", study.File))
	return b
}

// killed kills the first task that has begun its run, and then calls next.
func killed(t *testing.T, next func()) {
	t.Helper()
	leases := filepath.Join(grid.PlanDir("grid"), "leases", "????")
	for t.Context().Err() == nil {
		found, _ := filepath.Glob(leases)
		begun, _ := filepath.Glob(filepath.Join("grid", "*", "ledger.jsonl"))
		for _, path := range found {
			var holder struct{ PID int }
			b, err := os.ReadFile(path)
			if len(begun) == 0 || err != nil || json.Unmarshal(b, &holder) != nil || holder.PID == 0 {
				continue
			}
			if err := syscall.Kill(holder.PID, syscall.SIGKILL); err == nil {
				t.Logf("killed process %d, which did cell %s", holder.PID, filepath.Base(path))
				next()
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// onEngine compares six cells on an engine, of which one is killed, with six cells in one process.
func onEngine(t *testing.T, name string, next func()) {
	w := testworld.Make(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "popri")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+asCommand+"=1 exec "+self+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	want := six(t, w)
	t.Chdir(t.TempDir())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		killed(t, next)
	}()
	got := six(t, w, "--on", name, "--job", "program="+program, "--every", "1s")
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("no task was killed")
	}
	if string(got) != string(want) {
		t.Errorf("on %s:\n%s\nin one process:\n%s", name, got, want)
	}
}

func TestEngineSlurm(t *testing.T) {
	needsEngine(t, "slurm")
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s %q: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if config := run("scontrol", "show", "config"); !strings.Contains(config, "= popri\n") {
		t.Fatal("this cluster is not the one of scripts/engines_jobs.sh: its nodes are left alone")
	}
	nodes := strings.Fields(run("sinfo", "--noheader", "--Node", "--format=%N"))
	node := nodes[len(nodes)-1]
	onEngine(t, "slurm", func() {
		run("scontrol", "update", "nodename="+node, "state=drain", "reason=test")
		time.Sleep(5 * time.Second)
		t.Logf("drained for five seconds: %s", run("sinfo", "--noheader", "--nodes="+node, "--format=%N %T"))
		run("scontrol", "update", "nodename="+node, "state=resume")
	})
}

func TestEngineRay(t *testing.T) {
	needsEngine(t, "ray")
	onEngine(t, "ray", func() {})
}
