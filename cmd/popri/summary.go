package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"popri/accountant/guarantee"
	"popri/eval/domain"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/run/evaluation"
	"popri/run/federated"
	"popri/run/reporting"
)

// result is the output of demo and run with --json.
type result struct {
	Epsilon     float64            `json:"epsilon"`
	Delta       float64            `json:"delta"`
	Rounds      int                `json:"rounds"`
	Clients     int                `json:"clients"`
	Accuracy    map[string]float64 `json:"accuracy,omitempty"`
	Perplexity  map[string]float64 `json:"perplexity,omitempty"`
	MacroF1     map[string]float64 `json:"macro_f1,omitempty"` // of a classification, instead of the perplexity
	GapClosed   *float64           `json:"gap_closed,omitempty"`
	GapClosedCI *[2]float64        `json:"gap_closed_ci,omitempty"`
	// PublicDistance says how far public text is from the clients.
	PublicDistance *domain.Distance   `json:"public_distance,omitempty"`
	Seconds        map[string]float64 `json:"seconds"`
	Report         string             `json:"report"`
	Run            string             `json:"run"`
	Small          string             `json:"small,omitempty"` // folder of the small model
	Bits           map[string]float64 `json:"bits_per_character,omitempty"`
	Saved          map[string]float64 `json:"keystrokes_saved,omitempty"`
	// Guarantee states the guarantee in one sentence; Warnings say who or what is outside of it.
	Guarantee string   `json:"guarantee"`
	Warnings  []string `json:"warnings"`
}

// summary prints the results of a run: the table for people, or one object. e may be nil.
func (a *app) summary(dir, path string, e *evaluation.Outcome) error {
	r, unread := reporting.Of(dir)
	facts, failed := guarantee.ReadChosen(dir)
	abs, err := filepath.Abs(path)
	if err = cmp.Or(unread, failed, err); err != nil {
		return err
	}
	out := result{Guarantee: facts.Headline(), Warnings: nonNil(facts.Warnings()),
		Epsilon: r.Privacy.Spent, Delta: r.Privacy.Delta, Rounds: len(r.Rounds), Clients: r.Privacy.Clients,
		Seconds: map[string]float64{}, Report: abs, Run: dir}
	for _, s := range r.Stages {
		out.Seconds[s.Name] = s.Seconds
	}
	if e != nil {
		out.Accuracy, out.Perplexity, out.MacroF1 = map[string]float64{}, map[string]float64{}, map[string]float64{}
		out.Bits, out.Saved = map[string]float64{}, map[string]float64{}
		out.PublicDistance = e.PublicDistance
		for _, x := range e.Results {
			if out.Accuracy[x.Key] = x.Accuracy; x.MacroF1 != nil {
				out.MacroF1[x.Key] = *x.MacroF1
			} else {
				out.Perplexity[x.Key] = x.Perplexity
			}
			if x.Bits != nil {
				out.Bits[x.Key] = *x.Bits
			}
			if x.Saved != nil {
				out.Saved[x.Key] = *x.Saved
			}
			if x.Key == r.Main {
				out.GapClosed, out.GapClosedCI = x.GapClosed, (*[2]float64)(x.GapClosedCI)
			}
		}
	}
	if small := filepath.Join(dir, rundir.Small); rundir.Has(dir, rundir.Small) {
		out.Small = small
	}
	return a.emit(out, func(w io.Writer) {
		for _, s := range r.Stages {
			fmt.Fprintf(w, "%-32s %8s\n", s.Name,
				time.Duration(s.Seconds*float64(time.Second)).Round(100*time.Millisecond))
		}
		if e != nil {
			fmt.Fprintln(w)
			evaluationTable(w, e)
		}
		fmt.Fprintf(w, "\nguarantee: %s\n", out.Guarantee)
		for _, text := range out.Warnings {
			fmt.Fprintf(w, "note:      %s\n", text)
		}
		if r.Shortened != "" {
			fmt.Fprintf(w, "shortened: %s\n", r.Shortened)
		}
		if r.Convergence != "" {
			fmt.Fprintf(w, "rounds:    %s\n", r.Convergence)
		}
		if out.Small != "" {
			fmt.Fprintf(w, "model:     %s\n", out.Small)
			if e == nil || !e.Classifies() {
				fmt.Fprintf(w, "run it:    %s\n", reporting.Command(dir))
			}
		}
		fmt.Fprintf(w, "report:    %s\n", abs)
	})
}

// stopped says by which command to continue after Ctrl-C, a request to stop or a full disk.
func (a *app) stopped(err error, dir, again string) error {
	if !rundir.Exists(dir) {
		return err
	}
	switch {
	case errors.As(err, new(*federated.FewError)):
		a.say("too few clients reported; ask them again with: %s --clients … --identity …", again)
	case errors.As(err, new(rounds.Stopped)):
		a.say("the round is complete; go on with: %s", again)
	case errors.Is(err, context.Canceled):
		a.say("interrupted; go on with: %s", again)
	case fault.IsFull(err):
		a.say("the disk is full; make room and go on with: %s", again)
	}
	return err
}
