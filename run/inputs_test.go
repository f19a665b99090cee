package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant/guarantee"
	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/datakey"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/inputs"
	"popri/run/reporting"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// copied is the shared world in a folder of its own, whose files a test may change.
func copied(t *testing.T) *testworld.World {
	t.Helper()
	w := *testworld.Shared(t)
	dir := t.TempDir()
	testfile.Copy(t, dir, w.Dir)
	for _, path := range []*string{&w.Private, &w.Public, &w.Generator, &w.Device, &w.File, &w.Config.Data.Private,
		&w.Config.Data.Public, &w.Config.Model.Path, &w.Config.Downstream.Model} {
		*path = filepath.Join(dir, filepath.Base(*path))
	}
	w.Dir = dir
	w.Config.Trainer.Rounds = 1
	return &w
}

// TestSmallModelThatCannotBeLookedAt: a run does not begin without noting a small model that is there and cannot be
// looked at now, because it could not be gone on with when it can; one that is not there is the evaluation's concern.
func TestSmallModelThatCannotBeLookedAt(t *testing.T) {
	w := copied(t)
	w.Config.Downstream.Model = filepath.Join(w.Dir, "missing")
	if err := train(t.Context(), Options{Config: w.Config, Dir: t.TempDir()}); err != nil {
		t.Errorf("without a small model: %v", err)
	}
	w.Config.Downstream.Model = filepath.Join(w.Dir, "loop")
	if err := os.Symlink("loop", w.Config.Downstream.Model); err != nil {
		t.Fatal(err)
	}
	err := train(t.Context(), Options{Config: w.Config, Dir: t.TempDir()})
	if !fault.IsUser(err) || !strings.Contains(err.Error(), "cannot be looked at") {
		t.Errorf("a small model that cannot be looked at gives %v", err)
	}
}

// TestResumeChecksRounds: a run does not continue with files of finished rounds that are damaged or gone.
func TestResumeChecksRounds(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	c.Trainer.Rounds = 2
	done := filepath.Join(t.TempDir(), "run")
	mustTrain(t, Options{Config: c, Dir: done})
	for _, round := range []int{1, 2} {
		for _, name := range []string{release.File, "adapter/adapter_model.safetensors", "optimizer.safetensors",
			rundir.Scores, rundir.Metrics} {
			for _, gone := range []bool{false, true} {
				run := filepath.Join(t.TempDir(), "run")
				testfile.Copy(t, run, done)
				testfile.Remove(t, filepath.Join(run, rundir.Synthetic))
				path := filepath.Join(rundir.Round(run, round), filepath.FromSlash(name))
				b := testfile.Read(t, path)
				want := "has changed since its round ended"
				b[len(b)/2] ^= 1
				testfile.Write(t, path, b)
				if gone {
					want = "is gone since its round ended"
					testfile.Remove(t, path)
				}
				if err := train(t.Context(), Options{Dir: run, Resume: true}); !fault.IsUser(err) ||
					!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
					t.Errorf("round %d, %s, gone %v: %v", round, name, gone, err)
				}
			}
		}
	}
	if err := os.Remove(filepath.Join(rundir.Round(done, 1), rundir.Checksums)); err != nil { // of an earlier version
		t.Fatal(err)
	}
	if err := train(t.Context(), Options{Dir: done, Resume: true}); err != nil {
		t.Error(err)
	}
}

// A run of an earlier program, which did not know a setting, continues where the setting has its default, and not with
// another value of it.
func TestResumeOfEarlierProgram(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Trainer.Rounds = 1
	dir := filepath.Join(t.TempDir(), "run")
	mustTrain(t, Options{Config: c, Dir: dir})
	path := filepath.Join(dir, rundir.Inputs)
	for key, want := range map[string]string{"downstream.adapter": "", "trainer.rounds": "the run began without this key"} {
		var began inputs.Inputs
		if err := atomicfile.ReadJSON(path, &began); err != nil {
			t.Fatal(err)
		}
		value := began.Settings[key]
		delete(began.Settings, key)
		if err := began.Write(dir); err != nil {
			t.Fatal(err)
		}
		if err := train(t.Context(), Options{Dir: dir, Resume: true}); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v", key, err)
		}
		began.Settings[key] = value
		if err := began.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResumeComparesInputs: a run continues with what it began with, or says what has changed and does not.
func TestResumeComparesInputs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, w *testworld.World, run string)
		want   []string
		budget bool // whatever the user accepts
	}{
		"seed": {func(t *testing.T, _ *testworld.World, run string) {
			testfile.Replace(t, filepath.Join(run, rundir.Config), "seed: 1\n", "seed: 2\n")
		}, []string{"seed is 2, was 1"}, false},
		"compute type": {func(t *testing.T, _ *testworld.World, run string) {
			testfile.Replace(t, filepath.Join(run, rundir.Config), "dtype: float32", "dtype: bfloat16")
		}, []string{"model.dtype", "computes in bfloat16, was float32"}, false},
		"rounds": {func(t *testing.T, _ *testworld.World, run string) {
			testfile.Replace(t, filepath.Join(run, rundir.Config), "rounds: 1", "rounds: 5")
		}, []string{"trainer.rounds is 5, was 1"}, false},
		"weights": {func(t *testing.T, w *testworld.World, _ string) {
			path := filepath.Join(w.Generator, "model.safetensors")
			b := testfile.Read(t, path)
			b[len(b)-1] ^= 1
			testfile.Write(t, path, b)
		}, []string{"model.path", "the content of model.safetensors has changed"}, false},
		"token ids": {func(t *testing.T, w *testworld.World, _ string) {
			path := filepath.Join(w.Generator, "tokenizer.json")
			for _, swap := range [][2]string{{`"!":0`, `"!":-`}, {`"\"":1`, `"\"":0`}, {`"!":-`, `"!":1`}} {
				testfile.Replace(t, path, swap[0], swap[1])
			}
		}, []string{"model.path", "tokenizer.json"}, false},
		"small model": {func(t *testing.T, w *testworld.World, _ string) {
			testfile.Replace(t, filepath.Join(w.Device, "config.json"), "{", "{ ")
		}, []string{"downstream.model", "config.json"}, false},
		"public text": {func(t *testing.T, w *testworld.World, _ string) {
			testfile.Replace(t, w.Public, "the", "tho")
		}, []string{"data.public: the texts have changed", "scoring.encoder"}, false},
		"clients": {func(t *testing.T, w *testworld.World, _ string) {
			p, err := clients.Read(w.Private)
			if err != nil {
				t.Fatal(err)
			}
			p.Clients[0].Texts[0] += " again"
			if err := clients.Write(w.Private, p); err != nil {
				t.Fatal(err)
			}
		}, []string{"other clients"}, true},
		"test clients": {func(t *testing.T, w *testworld.World, _ string) {
			p, err := clients.Read(w.Private)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range p.Clients {
				if c.Split == clients.Test {
					p.Clients[i].Texts[0] += " again"
				}
			}
			if err := clients.Write(w.Private, p); err != nil {
				t.Fatal(err)
			}
		}, []string{"validation and test clients: the texts have changed"}, false},
		"budget": {func(t *testing.T, _ *testworld.World, run string) {
			testfile.Replace(t, filepath.Join(run, rundir.Config), "epsilon: 20", "epsilon: 40")
		}, []string{"epsilon is 40, was 20"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, run := copied(t), filepath.Join(t.TempDir(), "run")
			s := mustOpen(t, Options{Config: w.Config, Dir: run})
			s.Close()
			before := testfile.Read(t, filepath.Join(run, rundir.Inputs))
			c.change(t, w, run)
			s, err := Open(t.Context(), Options{Dir: run, Resume: true})
			if !fault.IsUser(err) {
				s.Close()
				t.Fatalf("the run goes on: %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
			if strings.ContainsAny(err.Error(), "{}") || strings.Count(err.Error(), "\n") > 4 {
				t.Errorf("not in words: %v", err)
			}
			if after, _ := os.ReadFile(filepath.Join(run, rundir.Inputs)); string(after) != string(before) {
				t.Error("the record of the inputs was changed")
			}
			s, err = Open(t.Context(), Options{Dir: run, Resume: true, AcceptChanges: true})
			if c.budget {
				if err == nil {
					s.Close()
				}
				if !fault.IsUser(err) {
					t.Fatalf("accepted: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			facts, err := guarantee.Read(run)
			if err != nil || !strings.Contains(strings.Join(facts.Warnings(), " "), c.want[0]) {
				t.Errorf("the change is not told of: %q (%v)", facts.Warnings(), err)
			}
		})
	}
}

// A folder that moved with its files continues, as does one whose configuration has another number of threads.
func TestMovedInputsAreTheSame(t *testing.T) {
	w, run := copied(t), filepath.Join(t.TempDir(), "run")
	s := mustOpen(t, Options{Config: w.Config, Dir: run})
	s.Close()
	moved := w.Generator + "-moved"
	if err := os.Rename(w.Generator, moved); err != nil {
		t.Fatal(err)
	}
	testfile.Replace(t, filepath.Join(run, rundir.Config), w.Generator, moved)
	testfile.Replace(t, filepath.Join(run, rundir.Config), "threads: 0", "threads: 1")
	if err := train(t.Context(), Options{Dir: run, Resume: true}); err != nil {
		t.Error(err)
	}
}

// TestNothingIsLeftOfARunThatCannotBegin: data, models and budget are looked at before a folder is made.
func TestNothingIsLeftOfARunThatCannotBegin(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *testworld.World){
		"no model": func(t *testing.T, w *testworld.World) {
			w.Config.Model.Path = filepath.Join(w.Dir, "nowhere")
		},
		"no encoder": func(t *testing.T, w *testworld.World) {
			w.Config.Scoring.Encoder = filepath.Join(w.Dir, "nowhere")
		},
		"delta":           func(t *testing.T, w *testworld.World) { w.Config.Privacy.Delta = 0.5 },
		"few prompts":     func(t *testing.T, w *testworld.World) { w.Config.Generate.Examples = 500 },
		"nothing to best": func(t *testing.T, w *testworld.World) { w.Config.DPO.Best = "pairs" },
		"no dates": func(t *testing.T, w *testworld.World) { // in the embedded data, too
			w.Config.Data.Private, w.Config.Data.Since = "godoc", "2024-01-01"
		},
		"key": func(t *testing.T, w *testworld.World) {
			t.Setenv(datakey.Variable, filepath.Join(w.Private, "under a file"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := copied(t)
			change(t, w)
			run := filepath.Join(w.Dir, "run")
			_, err := Open(t.Context(), Options{Config: w.Config, Dir: run})
			if !fault.IsUser(err) {
				t.Errorf("the error is %v", err)
			}
			if exists(run) {
				t.Error("a folder was made")
			}
		})
	}
}

// A run replaces no figures, texts or models that are in its folder and of no run.
func TestOtherProductsStay(t *testing.T) {
	w := testworld.Shared(t)
	run := t.TempDir()
	testfile.Write(t, filepath.Join(run, rundir.Eval), "{}")
	_, err := Open(t.Context(), Options{Config: w.Config, Dir: run})
	if !fault.IsUser(err) || !strings.Contains(err.Error(), rundir.Eval) || rundir.Exists(run) {
		t.Errorf("a run began beside figures of other texts: %v", err)
	}
}

// Ctrl-C is heeded while a run is being opened, and leaves nothing.
func TestCancelledBeforeItBegins(t *testing.T) {
	w, run := copied(t), filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{Config: w.Config, Dir: run}); !errors.Is(err, context.Canceled) || exists(run) {
		t.Errorf("the error is %v, a folder is there: %v", err, exists(run))
	}
}

// TestPublicTextOfClients: what is public must not be the clients' text, unless the user says so, and then every page
// does.
func TestPublicTextOfClients(t *testing.T) {
	for name, c := range map[string]struct {
		public func(t *testing.T, w *testworld.World) string
		want   string
	}{
		"the client file": {func(_ *testing.T, w *testworld.World) string { return w.Private },
			"the file of the clients"},
		"a copy of it": {func(t *testing.T, w *testworld.World) string {
			b := testfile.Read(t, w.Private)
			return testfile.Write(t, filepath.Join(w.Dir, "copy.parquet"), b)
		}, "a column client_id"},
		"a column split": {func(t *testing.T, w *testworld.World) string {
			path := filepath.Join(w.Dir, "split.jsonl")
			return testfile.Write(t, path, `{"split": "train", "text": "the boat is red"}`+"\n")
		}, "a column split"},
		"some of their texts": {func(t *testing.T, w *testworld.World) string {
			p, err := clients.Read(w.Private)
			if err != nil {
				t.Fatal(err)
			}
			b := testfile.Read(t, w.Public)
			path := filepath.Join(w.Dir, "mixed.jsonl")
			for _, c := range p.Split(clients.Train)[:3] {
				b = append(b, `{"text": "`+strings.ToUpper(c.Texts[0])+`"}`+"\n"...)
			}
			return testfile.Write(t, path, b)
		}, "3 of its 153 texts are texts of clients, or nearly (3 of train clients)"},
	} {
		t.Run(name, func(t *testing.T) {
			w, run := copied(t), filepath.Join(t.TempDir(), "run")
			w.Config.Data.Public = c.public(t, w)
			err := train(t.Context(), Options{Config: w.Config, Dir: run})
			if !fault.IsUser(err) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "data.allow_overlap") {
				t.Errorf("the error is %v", err)
			}
			if name != "some of their texts" {
				return
			}
			w.Config.Data.AllowOverlap = true
			var told []string
			o := Options{Config: w.Config, Dir: run, Warn: func(text string) { told = append(told, text) }}
			mustTrain(t, o)
			if len(told) != 1 || !strings.Contains(told[0], c.want) {
				t.Errorf("told: %q", told)
			}
			page, err := reporting.Of(run)
			if words := strings.Join(page.Privacy.Warnings, " "); err != nil ||
				!strings.Contains(words, "data.allow_overlap") || strings.Contains(words, "3 of") {
				t.Errorf("the report says %q (%v)", words, err)
			}
		})
	}
}

// TestLedgerTellsNothingOfTheData: the tag of the private data cannot be computed without the key, two runs on the same
// data can be told to be so, and a run with another key cannot be gone on with.
func TestLedgerTellsNothingOfTheData(t *testing.T) {
	w := copied(t)
	tag := func(dir string) string {
		t.Helper()
		if !rundir.Exists(dir) {
			s := mustOpen(t, Options{Config: w.Config, Dir: dir})
			s.Close()
		}
		b, _, err := ledger.Read(filepath.Join(dir, rundir.Ledger))
		if err != nil {
			t.Fatal(err)
		}
		return b.Data
	}
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	if tag(one) != tag(two) || len(tag(one)) != 64 {
		t.Errorf("the same data are %s and %s", tag(one), tag(two))
	}
	t.Setenv(datakey.Variable, filepath.Join(t.TempDir(), "another.key"))
	if other := tag(filepath.Join(t.TempDir(), "three")); other == tag(one) {
		t.Error("the tag does not depend on the key")
	}
	if _, err := Open(t.Context(), Options{Dir: one, Resume: true}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), datakey.Variable) {
		t.Errorf("resumed with another key: %v", err)
	}
	w.Config.Privacy.Continues, w.Config.Privacy.Epsilon = two, 40
	if _, err := Open(t.Context(), Options{Config: w.Config,
		Dir: filepath.Join(t.TempDir(), "four")}); !fault.IsUser(err) {
		t.Errorf("continued with another key: %v", err)
	}
}

// TestBudgetEndsBeforeTheRounds: the rounds that the budget covers write the synthetic set.
func TestBudgetEndsBeforeTheRounds(t *testing.T) {
	w, run := copied(t), filepath.Join(t.TempDir(), "run")
	b := ledger.Budget{Epsilon: w.Config.Privacy.Epsilon, Delta: w.Config.Privacy.Delta, Clients: 30}
	w.Config.Trainer.Rounds = 2
	sigma, err := assembly.Calibrate(w.Config, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Config.Trainer.Rounds, w.Config.Privacy.NoiseMultiplier, w.Config.Generate.Quote = 4, sigma, "scored"
	for _, resume := range []bool{false, true} {
		err := train(t.Context(), Options{Config: w.Config, Dir: run, Resume: resume})
		if !errors.Is(err, ledger.ErrBudget) {
			t.Fatalf("the error is %v", err)
		}
		if !exists(filepath.Join(run, rundir.Synthetic)) {
			t.Fatal("there is no synthetic set")
		}
	}
	page, err := reporting.Of(run)
	if err != nil || page.Interrupted != "after round 2 of 4: the budget covers no more" || len(page.Rounds) != 2 ||
		!page.Rounds[1].Selected {
		t.Errorf("%q, %+v (%v)", page.Interrupted, page.Rounds, err)
	}
	w.Config.Privacy.NoiseMultiplier = sigma / 100
	if err := train(t.Context(), Options{Config: w.Config, Dir: run + "-none"}); !errors.Is(err, ledger.ErrBudget) ||
		exists(filepath.Join(run+"-none", rundir.Synthetic)) {
		t.Errorf("without any round: %v", err)
	}
}

// TestNoReference: without the declaration, nothing that is shared depends on the train clients' texts without noise.
func TestNoReference(t *testing.T) {
	w, run := copied(t), filepath.Join(t.TempDir(), "run")
	evaluated := func(reference bool) (*evaluation.Outcome, string) {
		t.Helper()
		w.Config.Eval.ReferencePrivate = reference
		o := Options{Config: w.Config, Dir: run, Resume: rundir.Exists(run)}
		s := mustOpen(t, o)
		defer s.Close()
		if o.Resume {
			if err := s.DeclareReference(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		e, err := s.Evaluate(t.Context(), evaluator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		path, err := reporting.Write(run)
		if err != nil {
			t.Fatal(err)
		}
		page := testfile.Read(t, path)
		return e, string(page)
	}
	e, page := evaluated(false)
	if e.HasReference() || e.OutsideEpsilon != "" || e.Result("popri") == nil {
		t.Errorf("%+v", e)
	}
	for _, r := range e.Results {
		if r.GapClosed != nil {
			t.Errorf("%s: a share of the gap", r.Key)
		}
	}
	if strings.Contains(page, "Gap closed") || strings.Contains(page, guarantee.Reference) ||
		!strings.Contains(page, "eval.reference_private=true shows them") {
		t.Error("the page shows the reference, or does not say that it is missing")
	}
	// Declared later, the row is made.
	e, page = evaluated(true)
	if !e.HasReference() || e.OutsideEpsilon != guarantee.Reference || e.Result("popri").GapClosed == nil {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(page, "Gap closed") || !strings.Contains(page, "They are outside of ε") {
		t.Error("the page lacks the reference, or what must be said of it")
	}
}
