package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"popri/accountant"
)

// mostRounds bounds the search of `account rounds`.
const mostRounds = 1_000_000

// unitText says what the figures mean; it is the same for all account verbs.
const unitText = "one client with all its texts"

// question is the input of the account verbs: three of sigma, rounds, epsilon and delta are given.
type question struct {
	event          accountant.Event
	delta, epsilon float64
	relation       string
	clients        int
	forceDelta     bool
	part           string // who takes part in a tree's leaves; "" for rounds, of which event says it
}

// samplingFlags are the flags that say who takes part and who is protected.
func (q *question) samplingFlags(f *pflag.FlagSet) {
	f.Float64Var(&q.event.SamplingRate, "sampling-rate", 1,
		"probability that a client takes part in a round (1: all take part)")
	f.IntVar(&q.event.Population, "population", 0, "number of clients from which --cohort are drawn")
	f.IntVar(&q.event.Cohort, "cohort", 0, "clients of a round, drawn without replacement from --population")
	f.StringVar(&q.relation, "relation", "",
		"neighbouring data sets: zero_out, add_or_remove or replace (default zero_out, replace with --cohort)")
	f.IntVar(&q.event.Group, "group", 1,
		"largest number of clients that belong to one person; the guarantee covers all of them together")
	f.StringVar((*string)(&q.event.Mechanism), "mechanism", "gaussian", "noise: gaussian, laplace or discrete_gaussian")
	f.IntVar(&q.clients, "clients", 0, "number of all clients; --delta must be below 1/clients")
	f.BoolVar(&q.forceDelta, "force-delta", false, "accept a --delta of 1/clients or more")
}

// settle checks the flags together.
func (q *question) settle(f *pflag.FlagSet) error {
	if rate := q.event.SamplingRate; !(rate > 0 && rate <= 1) {
		return fmt.Errorf("--sampling-rate is %g, want more than 0 and at most 1", rate)
	}
	if f.Changed("population") != f.Changed("cohort") {
		return fmt.Errorf("--population is %d and --cohort %d: give both or none", q.event.Population, q.event.Cohort)
	}
	if f.Changed("cohort") {
		if f.Changed("sampling-rate") {
			return fmt.Errorf("both --sampling-rate and --cohort: give one of them")
		}
		if q.event.Cohort < 1 || q.event.Cohort > q.event.Population {
			return fmt.Errorf("--cohort is %d, want 1 to --population, which is %d", q.event.Cohort, q.event.Population)
		}
		q.event.SamplingRate = 0
		q.relation = cmp.Or(q.relation, string(accountant.Replace))
		q.clients = cmp.Or(q.clients, q.event.Population)
	}
	q.relation = cmp.Or(q.relation, string(accountant.ZeroOut))
	if err := accountant.Relation(q.relation).Validate(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if q.event.Group < 1 {
		return fmt.Errorf("--group is %d, want 1 or more", q.event.Group)
	}
	if q.clients < 0 {
		return fmt.Errorf("--clients is %d, want 0 or more", q.clients)
	}
	if f.Lookup("delta") != nil && q.clients > 0 && q.delta >= 1/float64(q.clients) && !q.forceDelta {
		return fmt.Errorf("--delta is %g, want less than 1/clients = %.3g: publishing one client's texts would "+
			"satisfy it; --force-delta accepts it", q.delta, 1/float64(q.clients))
	}
	return nil
}

func (q question) events() []accountant.Event { return []accountant.Event{q.event} }

// taking says who takes part in a round.
func (q question) taking() string {
	switch {
	case q.part != "":
		return q.part
	case q.event.Cohort > 0:
		return fmt.Sprintf("%d of %d clients in a round, drawn without replacement", q.event.Cohort, q.event.Population)
	case q.event.SamplingRate < 1:
		return fmt.Sprintf("each client in a round with probability %g, independently", q.event.SamplingRate)
	}
	return "every client in every round"
}

// sensitivity says what the noise multiplier is relative to, and why.
func (q question) sensitivity() string {
	norm, spread := "L2", "standard deviation"
	if q.event.Mechanism == accountant.Laplace {
		norm, spread = "L1", "scale"
	}
	text := fmt.Sprintf("the %s norm that no client's vector exceeds (scoring.clip_norm); the noise multiplier is "+
		"the noise's %s divided by it", norm, spread)
	if q.relation == string(accountant.Replace) {
		text += "; replacing a client takes its vector away and puts another there, so a sum moves by up to twice " +
			"the norm, which is included here"
	}
	if q.event.Group > 1 {
		text += fmt.Sprintf("; %d clients move a sum %d times as far, which is included here too", q.event.Group,
			q.event.Group)
	}
	return text
}

func (q question) unit() string {
	if q.event.Group > 1 {
		return fmt.Sprintf("one person who is up to %d clients, with all their texts", q.event.Group)
	}
	return unitText
}

// statement prints the conditions under which the figures hold.
func (q question) statement(w io.Writer) {
	fmt.Fprintf(w, "\nrelation\t%s: %s\nunit\t%s\nsensitivity\t%s\n", q.relation,
		accountant.Relation(q.relation).GroupWords(q.event.Group), q.unit(), q.sensitivity())
}
