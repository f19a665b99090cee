package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/cmd/internal/federated"
	"popri/internal/numeric"
	"popri/internal/quote"
)

// quantity is one of the account verbs: what it computes, and from what.
type quantity struct {
	name, short, example string
	given                []string // flags that must be set
	answer               func(accountant.Accountant, question) (float64, error)
	text                 func(float64) string
}

var quantities = []quantity{
	{
		name: "epsilon", short: "The ε that rounds with this noise spend",
		example: "  popri account epsilon --noise-multiplier 19.3 --rounds 20 --sampling-rate 1 --delta 3e-6",
		given:   []string{"noise-multiplier", "rounds", "delta"},
		answer: func(a accountant.Accountant, q question) (float64, error) {
			return a.Epsilon(q.events(), q.delta)
		},
		text: roundedUp,
	},
	{
		name: "delta", short: "The δ at which rounds with this noise are ε-private",
		example: "  popri account delta --noise-multiplier 19.3 --rounds 20 --epsilon 1",
		given:   []string{"noise-multiplier", "rounds", "epsilon"},
		answer: func(a accountant.Accountant, q question) (float64, error) {
			return a.Delta(q.events(), q.epsilon)
		},
		text: roundedUp,
	},
	{
		name: "sigma", short: "The noise multiplier that keeps rounds within (ε, δ)",
		example: "  popri account sigma --epsilon 7 --delta 1e-4 --rounds 3",
		given:   []string{"epsilon", "delta", "rounds"},
		answer: func(a accountant.Accountant, q question) (float64, error) {
			return accountant.Plan{Each: q.event}.Sigma(a, q.epsilon, q.delta)
		},
		text: roundedUp,
	},
	{
		name: "rounds", short: "How many rounds with this noise stay within (ε, δ)",
		example: "  popri account rounds --noise-multiplier 19.3 --epsilon 1 --delta 3e-6",
		given:   []string{"noise-multiplier", "epsilon", "delta"},
		answer: func(a accountant.Accountant, q question) (float64, error) {
			n, err := accountant.Plan{Each: q.event}.Rounds(a, q.epsilon, q.delta, mostRounds)
			return float64(n), err
		},
		text: func(n float64) string {
			if n >= mostRounds {
				return fmt.Sprintf("%d or more", mostRounds)
			}
			return strconv.FormatFloat(n, 'f', 0, 64)
		},
	},
}

// answers is the output of an account verb: the figure of each accountant that applies, and the question.
type answers struct {
	asked  question
	given  map[string]float64
	byName []named
}

type named struct {
	name  string
	value float64
}

func (r answers) MarshalJSON() ([]byte, error) {
	all := map[string]any{"relation": r.asked.relation, "unit": r.asked.unit(),
		"sensitivity": r.asked.sensitivity(), "mechanism": r.asked.event.Mechanism, "taking_part": r.asked.taking()}
	for key, v := range r.given {
		all[strings.ReplaceAll(key, "-", "_")] = figure(v)
	}
	for _, n := range r.byName {
		all[n.name] = figure(n.value)
	}
	return json.Marshal(all)
}

func (a *app) account() *cobra.Command {
	verbs := append(numeric.Map(quantities, a.accountVerb), a.accountTree(), a.accountTable3(), a.accountAudit())
	return group("account", "Privacy spent or noise needed, by every accountant side by side; audits",
		"  popri account epsilon --noise-multiplier 19.3 --rounds 20 --delta 3e-6\n"+
			"  popri account sigma --epsilon 7 --delta 1e-4 --rounds 3\n  popri account audit runs/one", verbs...)
}

func (a *app) accountVerb(asked quantity) *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:     asked.name,
		Short:   asked.short,
		Example: asked.example,
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	for _, flag := range asked.given {
		switch flag {
		case "noise-multiplier":
			f.Float64Var(&q.event.Sigma, flag, 0,
				"standard deviation of the noise (of Laplace noise: its scale) / norm bound of a client's vector")
		case "rounds":
			f.IntVar(&q.event.Count, flag, 0, "releases of a noised sum")
		case "epsilon":
			f.Float64Var(&q.epsilon, flag, 0, "the budget's ε")
		case "delta":
			f.Float64Var(&q.delta, flag, 0, "the budget's δ, below 1/clients")
		}
	}
	federated.Required(cmd, asked.given...)
	q.samplingFlags(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.runAccount(cmd, asked, q) }
	return cmd
}

// runAccount answers the question of an account verb by every accountant that applies.
func (a *app) runAccount(cmd *cobra.Command, asked quantity, q question) error {
	if err := q.settle(cmd.Flags()); err != nil {
		return usage(err)
	}
	r := answers{asked: q, given: map[string]float64{"group": float64(q.event.Group)}}
	if q.event.Cohort > 0 {
		r.given["population"], r.given["cohort"] = float64(q.event.Population), float64(q.event.Cohort)
	} else {
		r.given["sampling-rate"] = q.event.SamplingRate
	}
	for _, flag := range asked.given {
		r.given[flag] = map[string]float64{"noise-multiplier": q.event.Sigma,
			"rounds": float64(q.event.Count), "epsilon": q.epsilon, "delta": q.delta}[flag]
	}
	var failed error
	for _, acc := range accountant.All(accountant.Relation(q.relation)) {
		value, err := asked.answer(acc, q)
		if err != nil { // impossible values fail for all accountants, extreme ones for some
			if !errors.Is(err, accountant.ErrNotApplicable) {
				failed = cmp.Or(failed, err)
			}
			continue
		}
		r.byName = append(r.byName, named{acc.Name(), value})
		if p, ok := acc.(accountant.PLD); ok && asked.name == "epsilon" {
			lower, _, err := p.EpsilonBounds(q.events(), q.delta)
			if err != nil {
				return usage(err)
			}
			r.byName = append(r.byName, named{"pld_lower", lower})
		}
	}
	switch {
	case len(r.byName) == 0 && failed != nil:
		return usage(failed)
	case failed != nil:
		a.warn(failed.Error())
	case len(r.byName) == 0:
		return usage(fmt.Errorf("no accountant covers --mechanism %s with --sampling-rate %g, --cohort %d and "+
			"--group %d under %s; gaussian noise on every client in every round is always covered",
			q.event.Mechanism, q.event.SamplingRate, q.event.Cohort, q.event.Group, q.relation))
	}
	return a.emit(r, func(w io.Writer) { asked.print(w, q, r) })
}

// changed is the first of the flags that was given, "" if none was.
func changed(cmd *cobra.Command, names ...string) string {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// print writes the table of a verb.
func (asked quantity) print(w io.Writer, q question, r answers) {
	given := map[string]string{
		"noise-multiplier": fmt.Sprintf("noise multiplier %g", q.event.Sigma),
		"rounds":           quote.Count(q.event.Count, "round", "rounds"),
		"epsilon":          fmt.Sprintf("ε = %g", q.epsilon), "delta": fmt.Sprintf("δ = %g", q.delta),
	}
	parts := numeric.Map(asked.given, func(flag string) string { return given[flag] })
	fmt.Fprintf(w, "%s, %s\n\n", joined(parts), q.taking())
	fmt.Fprintf(w, "accountant\t%s\n", map[string]string{"epsilon": "ε", "delta": "δ",
		"sigma": "noise multiplier", "rounds": "rounds"}[asked.name])
	for _, n := range r.byName {
		if n.name == "pld_lower" {
			fmt.Fprintf(w, "(pld, at least)\t%s\n", accountant.RoundDown(n.value, digits))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", n.name, asked.text(n.value))
	}
	if k := r.excess(); asked.name == "sigma" && k >= 3 {
		fmt.Fprintf(w, "\nThe noise of rdp is an upper bound, which is of no use here: %s times the noise of pld.\n", strconv.FormatFloat(k, 'g', 2, 64))
	}
	q.statement(w)
}

// excess is the figure of rdp divided by the figure of pld; 0 where one of them is missing.
func (r answers) excess() float64 {
	of := map[string]float64{}
	for _, n := range r.byName {
		of[n.name] = n.value
	}
	if of["pld"] == 0 {
		return 0
	}
	return of["rdp"] / of["pld"]
}

// digits is the number of significant digits that the account verbs print.
const digits = 6

func roundedUp(v float64) string { return accountant.RoundUp(v, digits) }
