package federated_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"popri/configs"
	"popri/datasets/clients"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/audit"
	"popri/fedsim/client"
	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/model/embedding"
	"popri/run"
	"popri/run/auditing"
	"popri/run/federated"
	"popri/run/reporting"
	"popri/testkit/testfederation"
	"popri/testkit/testworld"
)

// elsewhere changes a configuration of the tests' world to one whose train clients are elsewhere. private is their
// file.
func elsewhere(t *testing.T, c *configs.Config) (private string) {
	t.Helper()
	private = c.Data.Private
	p, err := clients.Read(private)
	if err != nil {
		t.Fatal(err)
	}
	c.Fed.Clients = len(p.Split(clients.Train))
	c.Eval.ReferencePrivate = false
	held := &clients.Population{Name: p.Name, Unit: p.Unit,
		Clients: append(p.Split(clients.Validation), p.Split(clients.Test)...)}
	c.Data.Private = filepath.Join(t.TempDir(), "held.parquet")
	if err := clients.Write(c.Data.Private, held); err != nil {
		t.Fatal(err)
	}
	return private
}

// responder is a client with a new record.
func responder(t *testing.T, f *testfederation.Federation, i int, epsilon float64, small client.Trainer,
	texts []string) *client.Responder {
	t.Helper()
	key, err := identity.ReadClientKey(identity.ClientKeyPath(f.Dir, i+1))
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.NewResponder(client.ResponderOptions{Federation: f.Federation, Key: key,
		Dir:     filepath.Join(t.TempDir(), "client"),
		Epsilon: epsilon, Delta: 1e-3, AnnouncedEncoder: true, Open: embedding.LoadSaved, Small: small, InsecureSeeds: true,
		AtOnce: true, Texts: func(string) ([]string, error) { return texts, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// respond has clients answer all announcements until ctx ends.
func respond(ctx context.Context, t *testing.T, f *testfederation.Federation, list []clients.Client,
	small client.Trainer) *sync.WaitGroup {
	t.Helper()
	var done sync.WaitGroup
	for i, c := range list {
		r := responder(t, f, i, 1000, small, c.Texts)
		done.Go(func() {
			defer r.Close()
			for {
				a, err := r.Next(ctx, 20*time.Millisecond)
				if err == nil {
					err = r.Answer(ctx, a)
				}
				if ctx.Err() != nil {
					return
				}
				if err != nil && (a == nil || time.Now().Before(a.Ends())) {
					t.Error(err)
					return
				}
			}
		})
	}
	return &done
}

// refuse sends both aggregators uploads that they refuse: two that are no reports and one that is too large at a time
// at which nothing is announced.
func refuse(t *testing.T, f *testfederation.Federation) {
	t.Helper()
	for _, role := range aggregate.Roles {
		anybody := f.Remote(role, "")
		defer anybody.Close()
		for _, upload := range []string{"no report", "none either", strings.Repeat("x", 1<<13)} {
			if err := anybody.Report(t.Context(), []byte(upload)); err == nil {
				t.Errorf("the %s takes %.20q", role, upload)
			}
		}
	}
}

// told looks for the uploads that [refuse] sent, but for the late one, in the metrics of the first round and in what the report says.
func told(t *testing.T, dir string) {
	t.Helper()
	figures, err := rounds.ReadMetrics(dir)
	if err != nil || len(figures) == 0 {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"refused_unproved": 0, "refused_invalid": 2} {
		if got := figures[0].Get(key); got == nil || *got != want {
			t.Errorf("%s is %v, want %g", key, got, want)
		}
	}
	r, err := reporting.Of(dir)
	const want = "refused 2 uploads, of which no sum has anything: 0 whose proofs did not hold, " +
		"2 that were no valid reports"
	if err != nil || !strings.Contains(strings.Join(r.Privacy.Statement, " "), want) {
		t.Errorf("the report says %q (%v), want %q", r.Privacy.Statement, err, want)
	}
}

// TestAggregated: a run whose clients report to two aggregators has the bytes of its simulation with the same seed, for
// questions of each round and for the one release; its audit is sound.
func TestAggregated(t *testing.T) {
	for name, change := range map[string]func(*configs.Config){
		"rounds": func(*configs.Config) {},
		"once":   testworld.AskOnce,
		"form": func(c *configs.Config) {
			testworld.AskOnce(c)
			c.Scoring.Form, c.Scoring.Words = 0.5, 1
		},
		"proved": func(c *configs.Config) { c.Aggregate.Proof = "range" },
	} {
		t.Run(name, func(t *testing.T) {
			c := testworld.Shared(t).Config
			change(&c)
			c.Aggregate.Least = 10
			want := t.TempDir()
			if err := train(t.Context(), run.Options{Config: c, Dir: want}); err != nil {
				t.Fatal(err)
			}
			f, list := federation(t, &c)
			ctx, stop := context.WithCancel(t.Context())
			refuse(t, f)
			done := respond(ctx, t, f, list, nil)
			dir := filepath.Join(t.TempDir(), "run")
			to := trainer(f)
			err := train(t.Context(), run.Options{Config: c, Dir: dir, Aggregators: to})
			stop()
			done.Wait()
			if err != nil {
				t.Fatal(err)
			}
			_, wanted := testworld.Charges(t, want)
			_, got := testworld.Charges(t, dir)
			files := []string{rundir.Synthetic}
			for i := range wanted {
				if i >= len(got) || got[i] != wanted[i] {
					t.Fatalf("charges %+v, want %+v", got, wanted)
				}
				files = append(files, fmt.Sprintf("rounds/%04d/%s", i+1, release.File))
			}
			same(t, dir, want, files...)
			sound(t, dir, len(wanted))
			told(t, dir)
		})
	}
}

// federation makes the clients of a run elsewhere, and the aggregators for the train clients.
func federation(t *testing.T, c *configs.Config) (*testfederation.Federation, []clients.Client) {
	t.Helper()
	all, err := clients.Read(elsewhere(t, c))
	if err != nil {
		t.Fatal(err)
	}
	list := all.Split(clients.Train)
	seed := rng.Seed(c.Seed, "noise")
	return testfederation.New(t, len(list), &seed), list
}

// sound audits a run with this number of releases and writes its report.
func sound(t *testing.T, dir string, releases int) {
	t.Helper()
	r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected})
	if err != nil || !r.Sound() || r.Releases != releases {
		t.Errorf("the audit: %d releases, %q (%v)", r.Releases, r.Problems, err)
	}
	if _, err := reporting.Write(dir); err != nil {
		t.Error(err)
	}
}

// trainer reaches both aggregators as a run does.
func trainer(f *testfederation.Federation) federated.Aggregators {
	return federated.Aggregators{aggregate.Leader: f.Remote(aggregate.Leader, identity.Trainer),
		aggregate.Helper: f.Remote(aggregate.Helper, identity.Trainer)}
}

// same compares files of a run with its simulation's.
func same(t *testing.T, dir, want string, files ...string) {
	t.Helper()
	for _, file := range files {
		x, err := os.ReadFile(filepath.Join(dir, file))
		y, errWant := os.ReadFile(filepath.Join(want, file))
		if err != nil || errWant != nil || !bytes.Equal(x, y) {
			t.Errorf("%s is not what the simulation makes (%v, %v)", file, err, errWant)
		}
	}
}

// TestTooFewReports: a run whose clients do not report ends without a charge, and continues when it is resumed and they
// do.
func TestTooFewReports(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Aggregate.Least, c.Aggregate.Minutes, c.Trainer.Rounds = 10, 0.05, 1
	f, list := federation(t, &c)
	dir := filepath.Join(t.TempDir(), "run")
	to := trainer(f)
	err := train(t.Context(), run.Options{Config: c, Dir: dir, Aggregators: to})
	var few *federated.FewError
	if !errors.As(err, &few) || few.Round != 1 {
		t.Fatal(err)
	}
	if _, charges := testworld.Charges(t, dir); len(charges) != 0 {
		t.Errorf("charges %+v", charges)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := respond(ctx, t, f, list, nil)
	defer done.Wait()
	defer stop()
	for range 20 { // on a busy machine, clients need longer than the seconds of an announcement
		if err = train(t.Context(), run.Options{Dir: dir, Resume: true, Aggregators: to}); !errors.As(err, &few) {
			break
		}
	}
	if _, charges := testworld.Charges(t, dir); err != nil || len(charges) != 1 || charges[0].Clients < 10 {
		t.Errorf("%v, charges %+v", err, charges)
	}
}

// TestReadsNoTrainClient: a file with train clients is refused where the clients are elsewhere.
func TestReadsNoTrainClient(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Aggregate.Least = 10
	private := elsewhere(t, &c)
	c.Data.Private = private
	err := train(t.Context(), run.Options{Config: c, Dir: t.TempDir(), Aggregators: federated.Aggregators{}})
	if !fault.IsUser(err) || !strings.Contains(err.Error(), private) || !strings.Contains(err.Error(), "30 train clients") {
		t.Errorf("%v", err)
	}
}
