package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"popri/configs"
	"popri/dpo"
	"popri/dpo/preference"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/lora"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
	"popri/trainer"
)

// preferFiles writes n pairs with a plain rule, and the configuration of a training of some steps on them.
func preferFiles(t *testing.T, n int) (config, pairs string, c configs.Config) {
	t.Helper()
	dir := t.TempDir()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines,
			"{\"prompt\": \"the cat sees %d\", \"chosen\": \" stones by the %d river\", \"rejected\": \" a boat\"}\n",
			i, i)
	}
	pairs = filepath.Join(dir, "pairs.jsonl")
	c = testworld.Shared(t).Config
	c.Optimizer.Epochs, c.Optimizer.Batch, c.DPO.EvalShare, c.DPO.Best, c.Optimizer.LearningRate = 3, 4, 0.2, "pairs",
		1e-2
	config = filepath.Join(dir, "prefer.yaml")
	if err := errors.Join(atomicfile.WriteBytes(pairs, []byte(lines.String())),
		atomicfile.WriteBytes(config, c.YAML())); err != nil {
		t.Fatal(err)
	}
	return config, pairs, c
}

// sameAdapter fails the test unless both folders hold the same files with the same bytes.
func sameAdapter(t *testing.T, dir, want string) {
	t.Helper()
	a, b := testworld.Content(t, want), testworld.Content(t, dir)
	delete(a, trainingLock)
	delete(b, trainingLock)
	for _, name := range []string{"adapter_model.safetensors", "adapter_config.json", preference.StepsFile,
		preference.EvalsFile, settingsFile, referenceFile} {
		if len(a[name]) == 0 {
			t.Errorf("the uninterrupted training has no %s", name)
		}
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s is not what an uninterrupted training has", filepath.Join(dir, name))
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s is left over", filepath.Join(dir, name))
		}
	}
}

// TestPreferKilled kills trainings with SIGKILL at random moments; gone on with, they end with the same bytes.
func TestPreferKilled(t *testing.T) {
	kills := testworld.Trials(t, 6)
	config, pairs, _ := preferFiles(t, 30)
	want := filepath.Join(t.TempDir(), "whole")
	start := func(dir string) (wait func() error, kill func(), state func() syscall.WaitStatus) {
		cmd, out := testworld.Process(t, dir, config)
		cmd.Env = append(cmd.Env, childPairs+"="+pairs)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() error {
				if err := cmd.Wait(); err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			}, func() { _ = cmd.Process.Kill() }, func() syscall.WaitStatus {
				s, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
				return s
			}
	}
	begun := time.Now()
	wait, _, _ := start(want)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	seed := uint64(time.Now().UnixNano())
	t.Logf("an uninterrupted training takes %v; moments from seed %d", took, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	midway := 0
	for killed, folders := 0, 0; killed < kills; folders++ {
		dir := filepath.Join(t.TempDir(), "killed")
		for inThis := 0; ; inThis++ {
			wait, kill, state := start(dir)
			var timer *time.Timer
			ended := make(chan struct{})
			if folders%2 == 0 && inThis == 0 { // loading takes longer than the steps, so few moments would be among them
				go killAfterStep(ended, dir, time.Duration(random.IntN(20))*time.Millisecond, kill)
			} else if killed < kills {
				timer = time.AfterFunc(time.Duration((0.2+0.8*random.Float64())*float64(took)), kill)
			}
			err := wait()
			close(ended)
			if timer != nil {
				timer.Stop()
			}
			if err == nil {
				if inThis == 0 {
					took = min(took, took*9/10) // it was done before it could be killed
				}
				break
			}
			if s := state(); !s.Signaled() || s.Signal() != syscall.SIGKILL {
				t.Fatalf("after %d kills: %v", inThis, err)
			}
			killed++
			if rundir.Has(dir, trainingFile) {
				midway++
			} else if rundir.Has(dir, "adapter_model.safetensors") {
				break // it was done, but for the end of the process
			}
		}
		if sameAdapter(t, dir, want); t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("faults: %d kills (%d in the midst of the steps)", kills, midway)
}

// killAfterStep kills a training of the folder some time after its first checkpoint, unless it has ended.
func killAfterStep(ended <-chan struct{}, dir string, after time.Duration, kill func()) {
	for !rundir.Has(dir, trainingFile) {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
	time.Sleep(after)
	kill()
}

// TestPreferCancelled stops a training after every step and measurement; it ends with the same bytes. What does not
// belong to it is refused.
func TestPreferCancelled(t *testing.T) {
	_, pairs, c := preferFiles(t, 30)
	want, dir := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "stopped")
	whole, err := Train(t.Context(), Options{Config: c, Pairs: pairs, Out: want})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Eval == nil || whole.Held != 6 || whole.Pairs != 24 || whole.Eval.Accuracy < 0.95 || whole.Steps != 18 ||
		whole.Cached {
		t.Errorf("%+v", whole)
	}
	o := Options{Config: c, Pairs: pairs, Out: dir}
	for attempt := 0; ; attempt++ {
		ctx, stop := context.WithCancel(t.Context())
		o.Step = func(dpo.Metrics, int, int) { stop() }
		got, err := Train(ctx, o)
		stop()
		if err == nil {
			if attempt != whole.Steps-1 || !got.Cached || got.Last != whole.Last || got.Loss != whole.Loss ||
				*got.Eval != *whole.Eval {
				t.Errorf("after %d interruptions: %+v, want %+v", attempt, got, whole)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if attempt == 2 {
			if _, err := Train(t.Context(), Options{Config: c, Pairs: pairs, Out: dir}); !fault.IsUser(err) ||
				!strings.Contains(err.Error(), "--resume") {
				t.Errorf("a new training in the folder of another gives %v", err)
			}
			b := testfile.Read(t, pairs)
			testfile.Write(t, pairs, bytes.Replace(b, []byte(" a boat"), []byte(" a rope"), 1))
			if _, err := Train(t.Context(), Options{Out: dir, Resume: true}); !fault.IsUser(err) ||
				!errors.Is(err, trainer.ErrForeignCheckpoint) {
				t.Errorf("other pairs give %v", err)
			}
			testfile.Write(t, pairs, b)
		}
		o = Options{Out: dir, Resume: true}
	}
	sameAdapter(t, dir, want)
	if _, err := Train(t.Context(), Options{Config: c, Pairs: pairs, Out: dir}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("another training in the folder of one that is done gives %v", err)
	}
	before := testworld.Content(t, dir)
	done, err := Train(t.Context(), Options{Out: dir, Resume: true})
	if err != nil || !done.Done || done.Out != dir || done.Last != whole.Last || *done.Eval != *whole.Eval ||
		done.Pairs != whole.Pairs {
		t.Errorf("a training that is done gives %+v, %v", done, err)
	}
	if !reflect.DeepEqual(testworld.Content(t, dir), before) {
		t.Error("to resume a training that is done changes its folder")
	}

	// Pairs to measure on from a file, and the reference of an earlier training.
	held := testfile.Write(t, filepath.Join(t.TempDir(), "held.jsonl"), testfile.Read(t, pairs))
	got, err := Train(t.Context(), Options{Config: c, Pairs: pairs, EvalPairs: held,
		Out: filepath.Join(t.TempDir(), "x")})
	if !fault.IsUser(err) || !strings.Contains(err.Error(), "dpo.eval_share") {
		t.Errorf("%+v, %v", got, err)
	}
	c.DPO.EvalShare = 0
	kept := filepath.Join(t.TempDir(), "kept.safetensors")
	for i := range 2 {
		got, err = Train(t.Context(), Options{Config: c, Pairs: pairs, EvalPairs: held, Reference: kept,
			Out: filepath.Join(t.TempDir(), "x")})
		if err != nil || got.Pairs != 30 || got.Held != 30 || got.Cached != (i == 1) || got.Stale != "" {
			t.Errorf("%+v, %v", got, err)
		}
		c.DPO.Beta *= 2 // has no part in the reference
	}
	if _, err := Train(t.Context(), Options{Config: c, Pairs: pairs, EvalPairs: held, Reference: pairs,
		Out: filepath.Join(t.TempDir(), "x")}); !fault.IsUser(err) || !strings.Contains(err.Error(), pairs) {
		t.Errorf("the pairs would be replaced by the reference: %v", err)
	}
	c.DPO.Best = "fid"
	if _, err := Train(t.Context(), Options{Config: c, Pairs: pairs,
		Out: filepath.Join(t.TempDir(), "x")}); !fault.IsUser(err) || !strings.Contains(err.Error(), "dpo.best") {
		t.Errorf("the distance to texts that are not there gives %v", err)
	}
}

// TestPreferDiverges: a learning rate that throws the adapters out of the numbers ends the training; the adapter before
// that step is kept and can be loaded.
func TestPreferDiverges(t *testing.T) {
	_, pairs, c := preferFiles(t, 12)
	c.DPO.EvalShare, c.DPO.Best, c.Optimizer.LearningRate, c.Optimizer.WarmupSteps, c.Optimizer.Schedule,
		c.Optimizer.WeightDecay = 0, "last", 10, 0, "constant", 10
	c.Optimizer.Epochs, c.DPO.Loss = 200, "ipo_sum"
	dir := filepath.Join(t.TempDir(), "diverges")
	_, err := Train(t.Context(), Options{Config: c, Pairs: pairs, Out: dir})
	n, ok := errors.AsType[*trainer.NonFinite](err)
	if !ok || len(n.Examples) == 0 || !strings.Contains(err.Error(), filepath.Join(dir, lastGood)) ||
		!strings.Contains(err.Error(), "prompt ") {
		t.Fatalf("the error is %v", err)
	}
	if rundir.Has(dir, "adapter_config.json") {
		t.Error("an adapter is there as if the training had ended well")
	}
	f, err := safetensors.Open(filepath.Join(dir, lastGood, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32s()
		if err != nil || slices.ContainsFunc(values,
			func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }) {
			t.Errorf("%s is not finite (%v)", name, err)
		}
	}
}

// An adapter that was trained gives, loaded from its folder, logits that put what was chosen above what was rejected.
// $POPRI_PEFT_OUT keeps it for scripts/check_peft.py, which has the real peft compute the same logits.
func TestExportTrained(t *testing.T) {
	root := os.Getenv("POPRI_PEFT_OUT")
	if root == "" {
		root = t.TempDir()
	}
	_, pairs, c := preferFiles(t, 30)
	dir, model := filepath.Join(root, "trained", "dpo"), filepath.Join(root, "trained", "model")
	m := testmodel.Load(t, c.Model.Path, lm.Options{})
	defer m.Free()
	testfile.Copy(t, model, c.Model.Path)
	c.Model.Path = model // which PEFT finds by the adapter's own configuration
	if _, err := Train(t.Context(), Options{Config: c, Pairs: pairs, Out: dir}); err != nil {
		t.Fatal(err)
	}
	a, err := lora.Load(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	if a.Config.Base != model {
		t.Errorf("base_model_name_or_path is %q, want %q", a.Config.Base, model)
	}
	tok := testmodel.Tokenizer(t, c.Model.Path)
	read, _, err := dpo.Read(pairs, dpo.ReadOptions{Tokenizer: tok, MaxLength: m.Config.Context})
	if err != nil {
		t.Fatal(err)
	}
	p := read[0]
	err = tensor.Run(func(s *tensor.Scope) error {
		width := len(p.Prompt) + min(len(p.Chosen), len(p.Rejected))
		var ids []int64
		for _, completion := range [][]int32{p.Chosen, p.Rejected} {
			for _, id := range slices.Concat(p.Prompt, completion)[:width] {
				ids = append(ids, int64(id))
			}
		}
		in := lm.Input{IDs: s.FromInt64(ids, 2, int64(width))}
		off, on := m.Logits(s, m.Hidden(s, in, nil)), m.Logits(s, m.Hidden(s, in, a))
		gain := func(completion []int32) float64 { // at the completion's first token
			at := func(logits tensor.Tensor) float64 {
				row := s.Float32s(s.Softmax(s.Select(s.Select(logits, 0, 0), 0, int64(len(p.Prompt)-1)), 0))
				return math.Log(float64(row[completion[0]]))
			}
			return at(on) - at(off)
		}
		if g := gain(p.Chosen) - gain(p.Rejected); !(g > 0.5) {
			t.Errorf("the loaded adapter moves the chosen beginning by %g more than the rejected one", g)
		}
		return safetensors.Write(filepath.Join(dir, "logits.safetensors"), []safetensors.Tensor{
			safetensors.FromInt64("ids", []int64{2, int64(width)}, ids),
			safetensors.FromFloat32("off", off.Shape(), s.Float32s(off)),
			safetensors.FromFloat32("on", on.Shape(), s.Float32s(on))}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
}
