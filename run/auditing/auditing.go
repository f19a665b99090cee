// Package auditing audits the runs of some folders: it opens their encoders, says what they should have asked, lets
// package audit compare that with their releases and ledgers, and plays the canary game with their queries.
package auditing

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim"
	"popri/fedsim/audit"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/scoring"
	"popri/scoring/counts"
	"popri/scoring/ensemble"
	"popri/scoring/query"
	"popri/scoring/update"
)

// Options say what an audit of runs includes.
type Options struct {
	// Head is the hash of a line that the ledger must have, or at least its first 12 digits, in upper or lower
	// case; "" for none. It fits one run only.
	Head string
	// SkipNoise leaves out the measurement of the noise, for which the samples of every round are encoded again.
	SkipNoise bool
	// Game is the canary game: Trials (0 for no game), Confidence, NoiseFactor and SkipClip are used. Sigma, Rounds,
	// Delta and the query come from the run.
	Game fedsim.Game
}

// Audited is the audit of one run, canary game included.
type Audited struct {
	*audit.Report
	Canary *fedsim.Outcome // nil where no game was played
	// Protected is the audit of the run's protected test clients, who have a ledger of their own; nil if there are none.
	Protected *Audited
	skipped   bool // the noise was not to be measured
}

// ErrUnmeasured marks an audit that found nothing wrong and could not measure the noise of some release.
var ErrUnmeasured = errors.New("nothing was found wrong, and the noise could not be measured")

// Verdict returns an error if the audit found problems, and one of ErrUnmeasured where it was to measure noise and could
// not.
func (a Audited) Verdict() error {
	switch {
	case !a.Sound():
		return fmt.Errorf("account audit: %s does not pass the audit: %s", a.Dir, quote.Count(len(a.Problems), "problem", "problems"))
	case a.Protected != nil && a.Protected.Verdict() != nil:
		return a.Protected.Verdict()
	case a.Unmeasured && !a.skipped:
		return fmt.Errorf("account audit: %s: %w", a.Dir, ErrUnmeasured)
	}
	return nil
}

// Result is the audit of several runs.
type Result struct {
	Runs     []Audited
	Composed []ledger.Composed // what runs on the same private data spend together; nil for a single run
}

// Verdict joins the verdicts of all runs.
func (a Result) Verdict() error { return errors.Join(numeric.Map(a.Runs, Audited.Verdict)...) }

// Runs audits the runs in dirs and computes the ε that they spend together. It returns an error if a run cannot be
// read; problems of a run are in its Problems.
func Runs(dirs []string, o Options) (Result, error) {
	var result Result
	if o.Head != "" && len(dirs) > 1 {
		return result, fault.Userf("account audit: --head is the hash of one run's ledger, and there are %d runs",
			len(dirs))
	}
	var records []ledger.Record
	common := new(assembly.Common)
	for _, dir := range dirs {
		one, err := auditRun(dir, o, common)
		if err != nil {
			return result, err
		}
		result.Runs, records = append(result.Runs, one), append(records, one.Record)
		if one.Protected != nil {
			records = append(records, one.Protected.Record)
		}
	}
	if len(dirs) == 1 {
		return result, nil
	}
	var err error
	result.Composed, err = ledger.Compose(records)
	return result, err
}

func auditRun(dir string, o Options, common *assembly.Common) (Audited, error) {
	alone := !rundir.Exists(dir)
	if alone && !rundir.Has(dir, rundir.Ledger) {
		return Audited{}, fault.Userf("account audit: %s holds no run and no ledger: there is no %s and no %s", dir,
			rundir.Config, rundir.Ledger)
	}
	options := audit.Options{Head: strings.ToLower(o.Head), Expect: Expected, Alone: alone}
	if err := options.Validate(); err != nil {
		return Audited{}, fault.Userf("account audit: --head: %w", err)
	}
	untested := func(format string, args ...any) {
		options.Rounds = func(int) (audit.Round, error) { return audit.Round{}, fmt.Errorf(format, args...) }
	}
	if alone {
		untested("there is no run")
	} else if o.SkipNoise {
		untested("--skip-noise leaves it out")
	} else if rounds, free, err := RoundVectors(dir, common); err != nil {
		untested("the encoder cannot be opened: %w", err)
	} else {
		defer free()
		options.Rounds = rounds
	}
	report, err := audit.Run(dir, options)
	if errors.Is(err, os.ErrNotExist) {
		return Audited{}, fault.Userf("account audit: %w", err)
	}
	if err != nil {
		return Audited{}, err
	}
	a := Audited{Report: report, skipped: o.SkipNoise}
	if alone {
		return a, nil
	}
	if protected := filepath.Join(dir, rundir.ProtectedEval); rundir.Has(protected, rundir.Ledger) {
		test, err := auditRun(protected, Options{SkipNoise: true}, common)
		if err != nil {
			return a, err
		}
		a.Protected = &test
	}
	return a, a.play(o.Game)
}

// maxGameRounds keeps the game of a long run short. The claimed ε is then for this number of rounds.
const maxGameRounds = 50

// play plays the canary game with the run's query, clipping and noise, over as many rounds as the run was charged for.
// Every client takes part in every round, so the claimed ε is the one without amplification by sampling. A run without
// charges or without noise plays no game.
func (a *Audited) play(g fedsim.Game) error {
	own := slices.DeleteFunc(slices.Clone(a.Record.Entries), func(e ledger.Entry) bool { return e.Inherited })
	for _, e := range ledger.Events(a.Record.Budget, own) { // of a tree, the nodes play that hold one client's updates
		g.Rounds, g.Sigma = min(g.Rounds+e.Count, maxGameRounds), e.Sigma
	}
	if g.Trials == 0 || g.Rounds == 0 || g.Sigma == 0 || a.Query == "" {
		return nil
	}
	switch {
	case update.Named(a.Query):
		g.Clip = a.Bound
	case counts.Named(a.Query):
		g.Counts = true
	case ensemble.Named(a.Query):
		g.Votes = a.Bound
	case scoring.BallotNamed(a.Query):
		for _, e := range own {
			g.Picks, g.Slack = e.Picks, e.Slack
		}
	default:
		g.Ask = func(samples embedding.Matrix, loose float64) (query.Query, error) {
			return scoring.Ask(a.Query, loose*a.Bound, samples, "canary")
		}
	}
	g.Delta = a.Record.Budget.Delta
	outcome, err := g.Play()
	if err != nil {
		return fault.Userf("account audit: %w", err)
	}
	a.Canary = &outcome
	if !outcome.Holds() {
		a.Problems = append(a.Problems, fmt.Sprintf("The canary game shows ε of at least %s, more than the %s that is "+
			"claimed: the mechanism does not do what it says.", accountant.RoundDown(outcome.LowerBound(), 4),
			accountant.RoundUp(outcome.Claimed, 6)))
	}
	return nil
}

// Expected returns what a run with this configuration asks its clients.
func Expected(c configs.Config) (e audit.Expected) {
	d := methods.Of(c)
	e.Query, e.Bound = d.Query(c)
	if d.First != nil {
		e.First = new(audit.Expected)
		e.First.Query, e.First.Bound = d.First(c)
	}
	e.Once, e.None = d.Releases(c) == 1 && d.Rounds(c) > 1, d.Releases(c) == 0
	return e
}
