package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim"
	"popri/fedsim/audit"
	"popri/internal/numeric"
	"popri/run/auditing"
)

// audited is the output of `account audit` for a run.
type audited struct {
	Dir       string            `json:"dir"`
	Sound     bool              `json:"sound"`
	Epsilon   map[string]figure `json:"epsilon"` // by accountant
	Decides   string            `json:"decides"` // the accountant that the ledger goes by
	Budget    figure            `json:"budget"`
	Delta     float64           `json:"delta"`
	Relation  string            `json:"relation"`
	Unit      string            `json:"unit"`
	Charges   int               `json:"charges"`
	Releases  int               `json:"releases"`
	Head      string            `json:"head"` // hash of the ledger's last line
	Statement []string          `json:"statement"`
	Noise     noiseTests        `json:"noise"`
	Problems  []string          `json:"problems"`
	Warnings  []string          `json:"warnings"`
	Canary    *fedsim.Outcome   `json:"canary,omitempty"`
	Protected *audited          `json:"protected_test,omitempty"` // the run's protected test clients

	report auditing.Audited
}

func newAudited(r auditing.Audited) audited {
	b := r.Record.Budget
	out := audited{
		Dir: r.Dir, Sound: r.Sound(), Epsilon: map[string]figure{}, Decides: r.Decides,
		Budget: figure(b.Epsilon), Delta: b.Delta, Relation: string(b.Relation), Unit: b.Unit,
		Charges: len(r.Record.Entries), Releases: r.Releases, Head: r.Head, Statement: r.Statement(),
		Noise:    noiseTests{nonNil(r.Noise), r.NoisePooled, nonNil(r.NoiseUntested)},
		Problems: nonNil(r.Problems), Warnings: nonNil(r.Warnings), Canary: r.Canary, report: r,
	}
	for _, s := range r.Spent {
		if s.Unknown == "" {
			out.Epsilon[s.Name] = figure(s.Epsilon)
		}
	}
	if r.Protected != nil {
		p := newAudited(*r.Protected)
		out.Protected, out.Sound = &p, out.Sound && p.Sound
	}
	return out
}

// noiseTests are the measurements of the noise in the releases.
type noiseTests struct {
	Releases []audit.NoiseTest `json:"releases"`
	Pooled   *audit.NoiseTest  `json:"pooled,omitempty"`
	Untested []string          `json:"untested"` // of which releases there is no test, and why
}

// auditedRuns is the output of `account audit` for several runs.
type auditedRuns struct {
	Sound    bool              `json:"sound"`
	Runs     []audited         `json:"runs"`
	Composed []ledger.Composed `json:"composed"` // what runs on the same private data spend together
}

func (a *app) accountAudit() *cobra.Command {
	var asked auditing.Options
	cmd := &cobra.Command{
		Use:   "audit RUN…",
		Short: "Check runs against their ledgers, measure their noise, play a canary game, and say what is guaranteed",
		Long: `The audit compares a run's releases with its ledger and its configuration, computes ε again with every accountant, and
says in plain words what is guaranteed. For several runs on the same private data it also prints the ε that they spend
together; for several data sets, also the ε of a client who would be in all of them. The audit
reads a run's protected-eval too. A folder that holds a ledger alone is audited as far as the ledger goes: an aggregator's
--state, or a client's record. A run without its config.yaml fails.

It measures the noise in the part of the releases that no true sum reaches, where they hold noise alone. This needs the run's
encoder and no client's text. The exit code is 5 if the audit found nothing wrong but could not measure some noise. --head takes
the hash that an earlier audit printed, or at least its first 12 digits: if the ledger was rolled back together with its head
file, that line is missing.

The canary game runs the mechanism, on the code path that scores clients, some thousand times on made-up clients, with and
without one of them. The errors of the best test bound ε from below. A bound above the claimed ε means that the mechanism
does not do what it says. --noise-factor and --skip-clip break the mechanism on purpose, to show that the game detects it.`,
		Example: "  popri account audit runs/one\n  popri account audit runs/one runs/two runs/three\n" +
			"  popri account audit runs/one --noise-factor 0.5",
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.IntVar(&asked.Game.Trials, "trials", 4000, "games with the canary, and as many without it (0: none)")
	f.Float64Var(&asked.Game.Confidence, "confidence", 0.999, "confidence of the game's lower bound on ε")
	f.Float64Var(&asked.Game.NoiseFactor, "noise-factor", 1,
		"for the game: the share of the noise that is really added")
	f.BoolVar(&asked.Game.SkipClip, "skip-clip", false, "for the game: do not clip the canary's vector")
	f.StringVar(&asked.Head, "head", "",
		"hash of a line that the ledger must have, or at least its first 12 digits; for one run")
	f.BoolVar(&asked.SkipNoise, "skip-noise", false,
		"do not measure the noise, which encodes every round's samples again")
	cmd.RunE = func(_ *cobra.Command, dirs []string) error { return a.runAudit(dirs, asked) }
	return cmd
}

// runAudit audits runs, and what they spend together.
func (a *app) runAudit(dirs []string, asked auditing.Options) error {
	found, err := auditing.Runs(dirs, asked)
	if err != nil {
		return err
	}
	result := auditedRuns{found.Verdict() == nil, numeric.Map(found.Runs, newAudited), found.Composed}
	if len(dirs) == 1 {
		err = a.emit(result.Runs[0], result.Runs[0].print)
	} else {
		err = a.emit(result, result.print)
	}
	if err != nil {
		return err
	}
	return found.Verdict()
}

// mayLeave refuses a run whose audit finds a problem, before anything of it is given away. The noise is not measured.
func mayLeave(run string) error {
	audited, err := auditing.Runs([]string{run}, auditing.Options{SkipNoise: true})
	if err != nil {
		return err
	}
	return audited.Verdict()
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (result auditedRuns) print(w io.Writer) {
	for _, one := range result.Runs {
		fmt.Fprintf(w, "== %s\n\n", one.Dir)
		one.print(w)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "== all runs")
	fmt.Fprintln(w)
	printComposed(w, result.Composed)
}

// printComposed prints a line for each private data set with what the runs spend together.
func printComposed(w io.Writer, composed []ledger.Composed) {
	for _, c := range composed {
		fmt.Fprintf(w, "%s.\n", c.Words("runs"))
	}
}

func (out audited) print(w io.Writer) {
	r := out.report
	for _, s := range slices.Concat(out.Statement, r.NoiseWords()) {
		fmt.Fprintln(w, s)
	}
	fmt.Fprintf(w, "\naccountant\tε at δ = %g\n", out.Delta)
	for _, s := range r.Spent {
		shown := cmp.Or(s.Unknown, roundedUp(s.Epsilon))
		if s.Unknown == "" && s.Name == r.Decides {
			shown += "\t(the ledger goes by it)"
		}
		fmt.Fprintf(w, "%s\t%s\n", s.Name, shown)
	}
	budget := ledger.Budget{}
	if r.Record.Budget != budget {
		fmt.Fprintf(w, "\ncharges\t%d\n", out.Charges)
		if !r.Alone || out.Releases > 0 {
			fmt.Fprintf(w, "releases on disk, each with its charge\t%d\n", out.Releases)
		}
		fmt.Fprintf(w, "head of the ledger\t%s\t(keep it elsewhere; a later audit with --head checks that this "+
			"line is still there)\n", out.Head)
	}
	if c := out.Canary; c != nil {
		fmt.Fprintf(w, "\ncanary game\t%d of %d sums with the canary were taken for such, and %d of %d without\n",
			c.TruePositive, c.Trials, c.FalsePositive, c.Trials)
		fmt.Fprintf(w, "ε of its noise for one client, claimed\t%s\n"+
			"ε at least, for Gaussian noise\t%s\t(with %g %% confidence)\nε at least, for any noise\t%s\n",
			roundedUp(c.Claimed), accountant.RoundDown(c.GaussianBound, 4), 100*c.Confidence,
			accountant.RoundDown(c.DistributionFreeBound, 4))
	}
	for _, list := range []struct {
		head  string
		lines []string
	}{{"Not covered", out.Warnings}, {"Does not fit", out.Problems}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(w, "\n%s:\n", list.head)
		}
		for _, l := range list.lines {
			fmt.Fprintf(w, "- %s\n", l)
		}
	}
	if len(out.Problems) == 0 {
		fmt.Fprintf(w, "\n%s\n", r.Report.Verdict())
	}
	if out.Protected != nil {
		fmt.Fprintf(w, "\n== %s (protected test clients)\n\n", out.Protected.Dir)
		out.Protected.print(w)
	}
}
