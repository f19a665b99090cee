package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"popri/accountant"
)

// accountants are asked side by side, the tightest first.
var accountants = []accountant.Accountant{accountant.Exact{}, accountant.RDP{}}

// mostRounds bounds what `account rounds` looks for.
const mostRounds = 1_000_000_000

// What the figures mean, whichever is asked for.
const (
	relationText    = "add_or_remove: neighbouring data sets differ by one client more or less"
	unitText        = "one client with all its texts"
	sensitivityText = "the L2 norm that no client's vector exceeds (scoring.clip_norm); the noise multiplier is the noise's standard deviation divided by it"
)

// question is what the account verbs are asked: three of the four are given.
type question struct {
	sigma, rate, delta, epsilon float64
	rounds                      int
}

func (q question) events() []accountant.Event {
	return []accountant.Event{{Sigma: q.sigma, SamplingRate: q.rate, Count: q.rounds}}
}

// quantity is one of the verbs: what is asked for, from what.
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
			return accountant.Sigma(a, q.epsilon, q.delta, q.rounds, q.rate)
		},
		text: roundedUp,
	},
	{
		name: "rounds", short: "How many rounds with this noise stay within (ε, δ)",
		example: "  popri account rounds --noise-multiplier 19.3 --epsilon 1 --delta 3e-6",
		given:   []string{"noise-multiplier", "epsilon", "delta"},
		answer: func(a accountant.Accountant, q question) (float64, error) {
			n, err := accountant.Rounds(a, q.sigma, q.rate, q.epsilon, q.delta, mostRounds)
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

// answers is what an account verb prints: for each accountant that applies its figure, beside what was asked.
type answers struct {
	question map[string]float64
	byName   []named
}

type named struct {
	name  string
	value float64
}

func (r answers) MarshalJSON() ([]byte, error) {
	all := map[string]any{"relation": string(accountant.AddOrRemove), "unit": unitText, "sensitivity": sensitivityText}
	for key, v := range r.question {
		all[strings.ReplaceAll(key, "-", "_")] = figure(v)
	}
	for _, n := range r.byName {
		all[n.name] = figure(n.value)
	}
	return json.Marshal(all)
}

func (a *app) account() *cobra.Command {
	var verbs []*cobra.Command
	for _, q := range quantities {
		verbs = append(verbs, a.accountVerb(q))
	}
	return group("account", "Privacy spent or noise needed, by every accountant side by side",
		"  popri account epsilon --noise-multiplier 19.3 --rounds 20 --delta 3e-6\n  popri account sigma --epsilon 7 --delta 1e-4 --rounds 3", verbs...)
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
			f.Float64Var(&q.sigma, flag, 0, "standard deviation of the noise / sensitivity")
		case "rounds":
			f.IntVar(&q.rounds, flag, 0, "releases of a noised sum")
		case "epsilon":
			f.Float64Var(&q.epsilon, flag, 0, "the budget's ε")
		case "delta":
			f.Float64Var(&q.delta, flag, 0, "the budget's δ, below 1/clients")
		}
	}
	f.Float64Var(&q.rate, "sampling-rate", 1, "chance of each client to take part in a round (1: all of them do)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r := answers{question: map[string]float64{"sampling-rate": q.rate}}
		var missing []string
		for _, flag := range asked.given {
			if !cmd.Flags().Changed(flag) {
				missing = append(missing, "--"+flag)
			}
			r.question[flag] = map[string]float64{"noise-multiplier": q.sigma, "rounds": float64(q.rounds), "epsilon": q.epsilon, "delta": q.delta}[flag]
		}
		if len(missing) > 0 {
			return usage(fmt.Errorf("account %s: %s not given", asked.name, strings.Join(missing, " and ")))
		}
		if !(q.rate > 0 && q.rate <= 1) {
			return usage(fmt.Errorf("account %s: --sampling-rate is %g, want more than 0 and at most 1", asked.name, q.rate))
		}
		for _, acc := range accountants {
			value, err := asked.answer(acc, q)
			switch {
			case errors.Is(err, accountant.ErrNotApplicable):
			case err != nil: // the accountants fail for impossible values alone
				return usage(fmt.Errorf("account %s: %w", asked.name, err))
			default:
				r.byName = append(r.byName, named{acc.Name(), value})
			}
		}
		if len(r.byName) == 0 {
			return usage(fmt.Errorf("account %s: no accountant covers --sampling-rate %g; 1, every client in every round, is always covered", asked.name, q.rate))
		}
		return a.emit(r, func(w io.Writer) { asked.print(w, q, r) })
	}
	return cmd
}

// print writes the table of a verb.
func (asked quantity) print(w io.Writer, q question, r answers) {
	given := map[string]string{
		"noise-multiplier": fmt.Sprintf("noise multiplier %g", q.sigma), "rounds": fmt.Sprintf("%d rounds", q.rounds),
		"epsilon": fmt.Sprintf("ε = %g", q.epsilon), "delta": fmt.Sprintf("δ = %g", q.delta),
	}
	var parts []string
	for _, flag := range asked.given {
		parts = append(parts, given[flag])
	}
	taking := "every client in every round"
	if q.rate < 1 {
		taking = fmt.Sprintf("each client in a round with chance %g, independently", q.rate)
	}
	fmt.Fprintf(w, "%s, %s\n\n", strings.Join(parts, ", "), taking)
	fmt.Fprintf(w, "accountant\t%s\n", map[string]string{"epsilon": "ε", "delta": "δ", "sigma": "noise multiplier", "rounds": "rounds"}[asked.name])
	for _, n := range r.byName {
		fmt.Fprintf(w, "%s\t%s\n", n.name, asked.text(n.value))
	}
	fmt.Fprintf(w, "\nrelation\t%s\nunit\t%s\nsensitivity\t%s\n", relationText, unitText, sensitivityText)
}

// roundedUp shows six digits, and never less than the value: a rounded bound must stay one.
func roundedUp(v float64) string {
	if v == 0 || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	text := strconv.FormatFloat(v, 'g', 6, 64)
	if shown, err := strconv.ParseFloat(text, 64); err != nil || shown >= v {
		return text
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-5)
	return strconv.FormatFloat(v+unit/2, 'g', 6, 64)
}
