package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"popri/configs"
	"popri/dpo"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
	"popri/run/auditing"
	"popri/show/series"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestKilledAtAnyMoment kills runs of every method with SIGKILL at random moments. Each is gone on with, however often
// it was killed, and must end as one that was left alone.
func TestKilledAtAnyMoment(t *testing.T) {
	for _, m := range methods.All {
		if m.Follows { // a killed run and its twin cannot both continue one ledger
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			if !knows(m.Name) {
				t.Fatal("the test does not know what such a run holds")
			}
			kills := 5
			if m.Name == configs.Default().Method {
				kills = 15
			}
			killed(t, func(c *configs.Config) {
				if c.Method = m.Name; m.Needs(*c).Labels {
					labelled(t, c)
				}
			}, kills)
		})
	}
	t.Run("dp_ftrl with a tree", func(t *testing.T) { killed(t, oneTree, 10) })
	t.Run("popri asked once", func(t *testing.T) { killed(t, testworld.AskOnce, 10) })
	t.Run("popri by votes", func(t *testing.T) {
		killed(t, func(c *configs.Config) {
			c.Scoring.Release, c.Scoring.Objective, c.Scoring.Denoise = "votes", "similarity", "none"
		}, 5)
	})
	t.Run("grpo asked once, nearest", func(t *testing.T) {
		killed(t, func(c *configs.Config) {
			testworld.AskOnce(c)
			allOfGRPO(c)
			c.Trainer.Select = "distance"
		}, 10)
	})
}

// killed kills runs of a configuration the given number of times.
func killed(t *testing.T, change func(*configs.Config), kills int) {
	w := testworld.Shared(t)
	c := w.Config
	change(&c)
	c.Trainer.Rounds = 3
	c.Synthetic.Texts, c.Generate.MaxNewTokens = 1500, 6 // enough to be written in parts
	config := filepath.Join(t.TempDir(), "run.yaml")
	if err := atomicfile.WriteBytes(config, c.YAML()); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(t.TempDir(), "whole")
	cmd, out := testworld.Process(t, want, config)
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := time.Since(begun)

	seed := uint64(time.Now().UnixNano())
	t.Logf("an uninterrupted run takes %v; moments from seed %d", took, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kills = testworld.Trials(t, kills)
	runs, killed := 0, 0
	for killed < kills && !testworld.Late(t) {
		runs++
		dir := t.TempDir()
		inThis := 0
		for {
			cmd, out := testworld.Process(t, dir, config)
			begun := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var timer *time.Timer
			if killed+inThis < kills {
				timer = time.AfterFunc(time.Duration(random.Float64()*float64(took)), func() { _ = cmd.Process.Kill() })
			}
			err := cmd.Wait()
			if timer != nil {
				timer.Stop()
			}
			if err == nil {
				if inThis == 0 { // a busy machine may have slowed the first run down
					took = min(took, time.Since(begun))
				}
				break
			}
			if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() ||
				state.Signal() != syscall.SIGKILL {
				t.Fatalf("after %d kills a run does not go on: %v: %s", inThis, err, out)
			}
			inThis++
		}
		killed += inThis
		if sameRun(t, dir, want); t.Failed() {
			t.Fatalf("run %d was killed %d times", runs, inThis)
		}
	}
	t.Logf("faults: %d kills (of %d runs)", killed, runs)
}

// TestCancelled ends a run by its context, as Ctrl-C does, at each kind of moment; the resumed run is the same.
func TestCancelled(t *testing.T) {
	w := testworld.Shared(t)
	want := t.TempDir()
	mustTrain(t, Options{Config: w.Config, Dir: want})
	dir := t.TempDir()
	o := Options{Config: w.Config, Dir: dir}
	for _, listen := range []func(stop func()) rounds.Events{
		func(stop func()) rounds.Events {
			return rounds.Events{StageBegin: func(s rounds.Stage) {
				if s.Name == "generate" {
					stop()
				}
			}}
		},
		func(stop func()) rounds.Events {
			return rounds.Events{Log: func(event string, round int, v any) {
				if m, ok := v.(dpo.Metrics); ok && event == "dpo_step" && round == 1 && m.Step == 2 {
					stop()
				}
			}}
		},
		func(stop func()) rounds.Events {
			return rounds.Events{RoundEnd: func(series.Round) { stop() }}
		},
		func(stop func()) rounds.Events {
			return rounds.Events{StageBegin: func(s rounds.Stage) {
				if strings.HasPrefix(s.Name, "synthesize") {
					stop()
				}
			}}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		o.Events = listen(cancel)
		if err := train(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatalf("the error is %v, want %v", err, context.Canceled)
		}
		o.Resume = true
	}
	o.Events = rounds.Events{}
	mustTrain(t, o)
	sameRun(t, dir, want)
}

// TestForkedRun: two copies of a run that was stopped after its first round, both resumed, spend that round once and the
// second one twice; with noise from a seed, both release the same bytes, which count once.
func TestForkedRun(t *testing.T) {
	for seeded, want := range map[bool]int{false: 3, true: 2} {
		c := testworld.Shared(t).Config
		c.Trainer.Rounds, c.Privacy.InsecureSeededNoise = 2, seeded
		dirs := []string{t.TempDir(), t.TempDir()}
		ctx, stop := context.WithCancel(t.Context())
		err := train(ctx, Options{Config: c, Dir: dirs[0], Events: rounds.Events{RoundEnd: func(series.Round) { stop() }}})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		testfile.Copy(t, dirs[1], dirs[0])
		for _, dir := range dirs {
			mustTrain(t, Options{Dir: dir, Resume: true})
		}
		audited, err := auditing.Runs(dirs, auditing.Options{SkipNoise: true})
		if err != nil || audited.Verdict() != nil || len(audited.Composed) != 1 {
			t.Fatal(err, audited.Verdict(), audited.Composed)
		}
		alone, together := audited.Runs[0].Epsilon, audited.Composed[0]
		if together.Charges != want || (together.Epsilon > alone*1.1) == seeded {
			t.Errorf("seeded %v: %d charges, ε = %g, one run spends %g; want %d charges", seeded, together.Charges,
				together.Epsilon, alone, want)
		}
	}
}

// TestSecondSession: a folder that a run holds is refused, whatever is asked of it, and the run continues unharmed.
func TestSecondSession(t *testing.T) {
	w := testworld.Shared(t)
	want, dir := t.TempDir(), t.TempDir()
	mustTrain(t, Options{Config: w.Config, Dir: want})
	s := mustOpen(t, Options{Config: w.Config, Dir: dir})
	defer s.Close()
	if _, err := Open(t.Context(), Options{Config: w.Config, Dir: dir}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "resume") {
		t.Errorf("a new run in the folder of another gives %v", err)
	}
	_, err := Open(t.Context(), Options{Dir: dir, Resume: true})
	if !fault.IsUser(err) || !errors.Is(err, filelock.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("resuming a run that another process works on gives %v", err)
	}
	cmd, out := testworld.Process(t, dir, w.File)
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "locked") ||
		!strings.Contains(out.String(), dir) {
		t.Errorf("a second process: %v, %s", err, out)
	}
	if err := s.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameRun(t, dir, want)
}

// TestTwoBeginnings: of processes that begin runs in one folder, one does, and the others leave its files as they are,
// so that it can be gone on with.
func TestTwoBeginnings(t *testing.T) {
	w := testworld.Shared(t)
	for range 4 {
		dir := filepath.Join(t.TempDir(), "run")
		var begun atomic.Int32
		var all sync.WaitGroup
		for seed := range uint64(3) {
			all.Go(func() {
				c := w.Config
				c.Seed = 100 + seed
				s, err := Open(t.Context(), Options{Config: c, Dir: dir})
				if err == nil {
					begun.Add(1)
					s.Close()
				} else if !fault.IsUser(err) || !strings.Contains(err.Error(), "holds a run already") {
					t.Errorf("the error is %v", err)
				}
			})
		}
		all.Wait()
		if n := begun.Load(); n != 1 {
			t.Fatalf("%d runs began in one folder", n)
		}
		s, err := Open(t.Context(), Options{Dir: dir, Resume: true})
		if err != nil {
			t.Fatalf("the run that began cannot be gone on with: %v", err)
		}
		s.Close()
	}
}

// TestPartsOfAFolder: whatever a kill between two writes leaves of a new run is no obstacle, and what a run cannot do
// without is asked for by name.
func TestPartsOfAFolder(t *testing.T) {
	w := testworld.Shared(t)
	begin := func(t *testing.T) string {
		dir := t.TempDir()
		s := mustOpen(t, Options{Config: w.Config, Dir: dir})
		s.Close()
		return dir
	}
	remove := func(t *testing.T, dir string, names ...string) {
		for _, name := range names {
			testfile.Remove(t, filepath.Join(dir, name))
		}
	}
	want := t.TempDir()
	mustTrain(t, Options{Config: w.Config, Dir: want})
	t.Run("before the configuration", func(t *testing.T) {
		dir := begin(t)
		remove(t, dir, rundir.Config, rundir.Ledger, rundir.Ledger+".head")
		mustTrain(t, Options{Config: w.Config, Dir: dir})
		sameRun(t, dir, want)
	})
	t.Run("before the ledger", func(t *testing.T) {
		dir := begin(t)
		remove(t, dir, rundir.Ledger, rundir.Ledger+".head")
		mustTrain(t, Options{Dir: dir, Resume: true})
		sameRun(t, dir, want)
	})
	refused := func(t *testing.T, o Options, words ...string) {
		t.Helper()
		err := train(t.Context(), o)
		if !fault.IsUser(err) {
			t.Fatalf("the error is %v", err)
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v lacks %q", err, word)
			}
		}
	}
	t.Run("a ledger without its run", func(t *testing.T) {
		dir := begin(t)
		remove(t, dir, rundir.Config)
		refused(t, Options{Config: w.Config, Dir: dir}, rundir.Ledger, rundir.Config)
	})
	t.Run("releases without their ledger", func(t *testing.T) {
		dir := t.TempDir()
		testfile.Copy(t, dir, want)
		remove(t, dir, rundir.Ledger, rundir.Ledger+".head")
		refused(t, Options{Dir: dir, Resume: true}, rundir.Ledger, rundir.Rounds)
	})
	t.Run("no record of the inputs", func(t *testing.T) {
		dir := begin(t)
		remove(t, dir, rundir.Inputs)
		refused(t, Options{Dir: dir, Resume: true}, rundir.Inputs)
	})
}

// TestUnwritableFolder: a folder that cannot be made or written to is the user's to mend and is named.
func TestUnwritableFolder(t *testing.T) {
	w := testworld.Shared(t)
	file := testfile.Write(t, filepath.Join(t.TempDir(), "file"), "")
	if _, err := Open(t.Context(), Options{Config: w.Config, Dir: filepath.Join(file, "run")}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("a folder under a file gives %v", err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // who may write anywhere but into the kernel's folders
		if dir = "/sys/kernel"; !exists(dir) {
			t.Skip("no folder is closed to root here")
		}
	}
	if _, err := Open(t.Context(), Options{Config: w.Config, Dir: dir}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("a folder without permission to write gives %v", err)
	}
}

// TestRefusedEarly: public text of which nothing can be learned, and settings that a run's files cannot hold, are
// refused before there is a folder, so that the corrected run can be made where the refused one was asked for.
func TestRefusedEarly(t *testing.T) {
	w := testworld.Shared(t)
	same, two := `{"text": "the cat sees the hat in the garden at noon."}`+
		"\n", `{"text": "a small dog, a long rope."}`+"\n"
	for name, texts := range map[string]string{"alike": strings.Repeat(same, 200),
		"alternating": strings.Repeat(same+two, 100)} {
		c := w.Config
		testworld.AskOnce(&c)
		c.Scoring.Encoder, c.Data.Public = "hashing", filepath.Join(t.TempDir(), name+".jsonl")
		testfile.Write(t, c.Data.Public, texts)
		for _, m := range []string{"popri", "grpo", "private_evolution_sft", "public_selection"} {
			c.Method = m
			refuses(t, c, "200 public texts are all alike")
		}
	}
	c := w.Config
	c.Scoring.Encoder, c.Scoring.Dim, c.Data.Public = "latent", 512, filepath.Join(t.TempDir(), "public.jsonl")
	testfile.Write(t, c.Data.Public, strings.Repeat(same+two, 100))
	refuses(t, c, "too few")
	c = w.Config
	c.Data.Private = filepath.Join(t.TempDir(), "clients\xff.parquet")
	if err := os.Symlink(w.Private, c.Data.Private); err != nil {
		t.Skip(err) // a file system whose names are all UTF-8
	}
	refuses(t, c, "data.private")
}

// TestNoRoom: a write that the system refuses half way, as on a full disk, ends the run with the file's name; with room
// again it continues and ends as one that had always had it.
func TestNoRoom(t *testing.T) {
	w := testworld.Shared(t)
	want, dir := t.TempDir(), t.TempDir()
	mustTrain(t, Options{Config: w.Config, Dir: want})
	failed := 0
	for _, limit := range []string{"10", "300", "1000", "2500", "3500", "5000", "8000"} {
		cmd, out := testworld.Process(t, dir, w.File)
		cmd.Env = append(cmd.Env, childLimit+"="+limit)
		if err := cmd.Run(); err == nil {
			continue
		}
		t.Logf("files of at most %s bytes: %s", limit, strings.TrimSpace(out.String()))
		if failed++; !strings.Contains(out.String(), "file too large") || !strings.Contains(out.String(), dir) {
			t.Errorf("with files of at most %s bytes: %s", limit, out)
		}
	}
	t.Logf("faults: %d full disks", failed)
	if failed < 3 {
		t.Errorf("%d runs met the limit, at least 3 should", failed)
	}
	cmd, out := testworld.Process(t, dir, w.File)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sameRun(t, dir, want)
}

// TestNoRoomAtEachStage: the disk is full from one stage on. What fails is named, nothing is lost, and the report
// leaves what was there.
func TestNoRoomAtEachStage(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Synthetic.Texts = 1500 // whose parts are larger than the adapter
	config := testfile.Write(t, filepath.Join(t.TempDir(), "run.yaml"), c.YAML())
	want := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: want})
	stages := []struct{ stage, limit, file string }{
		{"generate", "100", "prompts.parquet"},
		{"collect", "100", "release.pending"},
		{"collect", "800", rundir.Ledger}, // the release fits, its charge does not
		{"pairs", "100", "scores.parquet"},
		{"dpo", "100", "reference.safetensors"},
		{"dpo", "8000", "round 1: dpo"},
		{"synthesize", "100", "adapter_model.safetensors"},
		{"synthesize", "9000", "part-00000.parquet"},
		{"report", "1000", rundir.Report},
	}
	for _, c := range stages {
		dir := t.TempDir()
		cmd, out := testworld.Process(t, dir, config)
		cmd.Env = append(cmd.Env, childStage+"="+c.stage, childLimit+"="+c.limit)
		if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "file too large") ||
			!strings.Contains(out.String(), c.file) {
			t.Errorf("%s with files of at most %s bytes: %v: %s, want %s", c.stage, c.limit, err, out, c.file)
		}
		cmd, out = testworld.Process(t, dir, config)
		if err := cmd.Run(); err != nil {
			t.Fatalf("after %s: %v: %s", c.stage, err, out)
		}
		sameRun(t, dir, want)
	}
	t.Logf("faults: %d full disks", len(stages))
}

// TestNoMemory: a process whose memory ends in the middle of a round is as one that was killed. A product for which
// libtorch gets no buffer is computed without one and rounded otherwise, so a run is compared file by file with an
// uninterrupted one only if the process left nothing that it had computed so; else by its charges and the names of
// its files.
func TestNoMemory(t *testing.T) {
	w := testworld.Shared(t)
	want := t.TempDir()
	mustTrain(t, Options{Config: w.Config, Dir: want})
	failed, exact := 0, 0
	for _, stage := range []string{"generate", "embed", "collect", "dpo", "synthesize"} {
		dir := t.TempDir()
		first, _ := testworld.Process(t, dir, w.File)
		first.Env = append(first.Env, childStage+"="+stage, childMemory+"=4096")
		if err := first.Run(); err != nil {
			failed++
		}
		compare := sameCharges
		if samePart(t, dir, want) {
			compare = sameRun
			exact++
		}
		cmd, out := testworld.Process(t, dir, w.File)
		if err := cmd.Run(); err != nil {
			t.Fatalf("after %s: %v: %s", stage, err, out)
		}
		compare(t, dir, want)
	}
	t.Logf("faults: %d ends of memory, %d of them compared file by file", failed, exact)
	if failed == 0 || exact == 0 {
		t.Errorf("%d processes met the end of their memory, %d were compared file by file", failed, exact)
	}
}
