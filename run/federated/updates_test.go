package federated_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim/aggregate"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods"
	"popri/run"
	"popri/run/evaluator"
	"popri/run/federated"
	"popri/testkit/testfederation"
	"popri/testkit/testworld"
)

// evaluated trains a run and its small model.
func evaluated(t *testing.T, o run.Options) {
	t.Helper()
	s, err := run.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Train(t.Context()); err != nil {
		s.Close()
		t.Fatal(err)
	}
	s.Close()
	if s, err = run.Open(t.Context(), run.Options{Dir: o.Dir, Resume: true, Evaluates: true}); err != nil { // asks nobody
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Evaluate(t.Context(), evaluator.Options{}); err != nil {
		t.Fatal(err)
	}
}

// further is the run in which clients train the small model of the run in dir.
func further(c configs.Config, dir string) configs.Config {
	testworld.Set(&c, append(methods.Further(dir), "trainer.rounds=2", "fedavg.clip_norm=0.5", "fedavg.local_epochs=2",
		"fedavg.client_texts=2")...)
	c.Privacy.Epsilon *= 2
	return c
}

// refuseUpdates has a client without the small model, one with another and one whose budget is too small refuse what is
// announced. None of them is charged.
func refuseUpdates(t *testing.T, f *testfederation.Federation, small, other *run.Small) {
	anybody := f.Remote(aggregate.Leader, "")
	defer anybody.Close()
	a, err := anybody.Current(t.Context())
	if err != nil || a == nil {
		t.Fatal(a, err)
	}
	without := responder(t, f, 0, 1000, nil, nil)
	another := responder(t, f, 0, 1000, other, nil)
	poor := responder(t, f, 0, .01, small, nil)
	defer without.Close()
	defer another.Close()
	defer poor.Close()
	if err := without.Answer(t.Context(), a); !fault.IsUser(err) || !strings.Contains(err.Error(), "--small") {
		t.Errorf("without a small model: %v", err)
	}
	if err := another.Answer(t.Context(), a); !fault.IsUser(err) || !strings.Contains(err.Error(), "hash") {
		t.Errorf("with another small model: %v", err)
	}
	if err := poor.Answer(t.Context(), a); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
	spent, err := another.Spent()
	if more, errPoor := poor.Spent(); err != nil || errPoor != nil || spent+more > 0 {
		t.Errorf("who does not answer has spent %g and %g (%v, %v)", spent, more, err, errPoor)
	}
}

// TestAdapterAtClients: clients elsewhere train an adapter of the small model of an earlier federated run. The run is
// stopped while a round is announced, and resumed. Its releases and its model have the bytes of the simulation, its
// ledger the charges of both runs, and its audit is sound.
func TestAdapterAtClients(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Model.DType, c.Aggregate.Least, c.Trainer.Rounds, c.Eval.ReferencePrivate = "auto", 10, 1, false
	simulated, wanted := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "further")
	evaluated(t, run.Options{Config: c, Dir: simulated})
	if err := train(t.Context(), run.Options{Config: further(c, simulated), Dir: wanted}); err != nil {
		t.Fatal(err)
	}

	f, list := federation(t, &c)
	small, err := run.OpenSmall(filepath.Join(simulated, rundir.Small)) // the federated run makes the same
	other, errOther := run.OpenSmall(c.Model.Path)
	if err != nil || errOther != nil {
		t.Fatal(err, errOther)
	}
	defer small.Close()
	defer other.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := respond(ctx, t, f, list, small)
	defer done.Wait()
	defer stop()
	first, dir := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "further")
	evaluated(t, run.Options{Config: c, Dir: first, Aggregators: trainer(f)})

	uncounted := further(c, first) // one more has enrolled since
	uncounted.Privacy.Continues, uncounted.Fed.Clients = "", c.Fed.Clients+1
	err = train(t.Context(), run.Options{Config: uncounted, Dir: dir, Aggregators: trainer(f)})
	if !fault.IsUser(err) || !strings.Contains(err.Error(), "privacy.continues="+first) {
		t.Errorf("without the charges of the earlier run: %v", err)
	}

	killed, kill := context.WithCancel(t.Context())
	defer kill()
	err = train(killed, run.Options{Config: further(c, first), Dir: dir, Aggregators: trainer(f), Announced: func(text string) {
		if strings.HasPrefix(text, "round 2 is announced") {
			refuseUpdates(t, f, small, other)
			kill()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := train(t.Context(), run.Options{Dir: dir, Resume: true, Aggregators: trainer(f)}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, wanted, "rounds/0001/release.bin", "rounds/0002/release.bin", "small/model.safetensors",
		"small/adapter/adapter_model.safetensors")
	_, before := testworld.Charges(t, first)
	_, charges := testworld.Charges(t, dir)
	_, want := testworld.Charges(t, wanted)
	if len(charges) != len(before)+2 || len(want) != len(charges) || charges[len(before)+1] != want[len(before)+1] {
		t.Errorf("charges %+v after %+v, want %+v", charges, before, want)
	}
	sound(t, dir, 2)
}

// TestAllWeightsAreTooLong: the vector of all weights is refused before anything is begun.
func TestAllWeightsAreTooLong(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Aggregate.Least = "dp_fedavg", 10
	elsewhere(t, &c)
	err := train(t.Context(), run.Options{Config: c, Dir: t.TempDir(), Aggregators: federated.Aggregators{}})
	if !fault.IsUser(err) || !strings.Contains(err.Error(), "fedavg.lora_rank: is 0") {
		t.Errorf("%v", err)
	}
}
