package study

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant/ledger"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/methods"
	"popri/run"
	"popri/run/reporting"
	"popri/study/cost"
	"popri/study/grid"
)

// Halved says what an adaptive ablation did.
type Halved struct {
	Eta   int          `json:"eta"`
	Rungs []HalvedRung `json:"rungs"`
	// Fixed says that all settings spend alike, so that the total was known before the first run. Otherwise it depended
	// on results, and Planned is what was fixed beforehand: all runs to their end.
	Fixed   bool              `json:"spending_fixed"`
	Planned []ledger.Composed `json:"composed_as_planned"`
}

// HalvedRung says which settings continued.
type HalvedRung struct {
	cost.Rung
	Settings []JudgedSetting `json:"settings"` // the best first; without settings of which a run failed
	// Tied says that the last one that went on and the first one that did not have equal figures.
	Tied bool `json:"tied,omitempty"`
}

// JudgedSetting is a setting on the validation clients.
type JudgedSetting struct {
	Values   []string `json:"values"`
	Accuracy Summary  `json:"accuracy"`
	Loss     Summary  `json:"loss"` // nats a token
	WentOn   bool     `json:"went_on"`
}

// DroppedRun is a run that did not go to its end.
type DroppedRun struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
	Seed   uint64   `json:"seed"`
	Rounds int      `json:"rounds"` // that it did
	Why    string   `json:"why"`
}

// halve runs the cells up to each rung and returns those that continue to their end.
func (a *Ablation) halve(ctx context.Context, cells []grid.Cell, o Options) ([]grid.Cell, error) {
	plan, err := o.Halving.Plan(cells, len(a.Seeds))
	if err != nil {
		return nil, err
	}
	a.Adaptive = &Halved{Eta: o.Halving.Eta}
	if a.Adaptive.Planned, a.Adaptive.Fixed, err = cost.Epsilon(cells, o.Halving, !o.AskEach); err != nil {
		return nil, err
	}
	for number, rung := range plan {
		o.say("rung %d of %d: the best %d of %d settings go on after %s", number+1, len(plan), rung.Keep,
			len(cells)/len(a.Seeds), roundsOf(rung.Rounds))
		var judged []JudgedSetting
		var theirs [][]grid.Cell
		for from := 0; from < len(cells); from += len(a.Seeds) {
			group := cells[from : from+len(a.Seeds)]
			j, err := a.judge(ctx, group, from, len(cells), rung, o)
			if err != nil {
				return nil, err
			}
			if j != nil {
				judged, theirs = append(judged, *j), append(theirs, group)
			}
		}
		// By accuracy, equal ones by loss, and these by their index in the grid.
		order := numeric.SortedIndices(len(judged), func(x, y int) int {
			return cmp.Or(cmp.Compare(judged[y].Accuracy.Mean, judged[x].Accuracy.Mean),
				cmp.Compare(judged[x].Loss.Mean, judged[y].Loss.Mean))
		})
		done := HalvedRung{Rung: rung}
		if n := len(order); n > rung.Keep {
			if same(judged[order[0]], judged[order[n-1]]) {
				return nil, fault.Userf("--adaptive: after %s, the texts of all settings serve the small model "+
					"equally: it learns from none of them, or the settings do not differ yet. Repeat the command "+
					"with more --min-rounds, which continues the same runs, or begin again with more texts "+
					"(synthetic.texts) or more updates (downstream.steps)", roundsOf(rung.Rounds))
			}
			if done.Tied = same(judged[order[rung.Keep-1]], judged[order[rung.Keep]]); done.Tied {
				o.say("settings on both sides of the border have equal figures; those that come first in the grid go on")
			}
		}
		var on []int
		for rank, i := range order {
			judged[i].WentOn = rank < rung.Keep
			done.Settings = append(done.Settings, judged[i])
			if judged[i].WentOn {
				on = append(on, i)
				continue
			}
			why := fmt.Sprintf("dropped after %s of %d: place %d of %d on the validation clients, and the best "+
				"%d went on", roundsOf(rung.Rounds), methods.Of(cells[0].Config).Rounds(cells[0].Config), rank+1,
				len(order), rung.Keep)
			o.say("%s: %s", strings.Join(judged[i].Values, ", "), why)
			a.drop(theirs[i], rung.Rounds, why)
		}
		a.Adaptive.Rungs = append(a.Adaptive.Rungs, done)
		slices.Sort(on) // the grid's order
		cells = slices.Concat(numeric.Pick(theirs, on)...)
		if len(cells) == 0 {
			break
		}
	}
	return cells, nil
}

// roundsOf counts rounds in words.
func roundsOf(n int) string { return quote.Count(n, "round", "") }

// same reports whether two settings cannot be distinguished.
func same(x, y JudgedSetting) bool {
	return slices.Equal(x.Accuracy.Values, y.Accuracy.Values) && slices.Equal(x.Loss.Values, y.Loss.Values)
}

func (a *Ablation) drop(cells []grid.Cell, rounds int, why string) {
	for _, c := range cells {
		if !slices.ContainsFunc(a.Failed, func(f FailedRun) bool { return f.Name == c.Name }) {
			a.Dropped = append(a.Dropped, DroppedRun{c.Name, c.Values, c.Seed, rounds, why})
		}
	}
}

// judge runs the seeds of a setting up to a rung and returns its figures, nil if a run failed.
func (a *Ablation) judge(ctx context.Context, group []grid.Cell, from, n int, rung cost.Rung,
	o Options) (*JudgedSetting, error) {
	var accuracy, loss []float64
	for i, c := range group {
		m, err := climb(ctx, c, from+i, n, rung.Rounds, o)
		if err == nil {
			accuracy, loss = append(accuracy, m.Accuracy), append(loss, m.Loss)
			continue
		}
		if err = a.failed(c, err, o); err != nil {
			return nil, err
		}
	}
	if len(accuracy) < len(group) {
		a.drop(group, rung.Rounds, "left out after "+roundsOf(rung.Rounds)+": another seed of the setting failed")
		return nil, nil
	}
	return &JudgedSetting{Values: group[0].Values, Accuracy: summarize(accuracy), Loss: summarize(loss)}, nil
}

// climb runs the cell up to a round and measures the text that it would publish there. What an earlier call measured is
// read.
func climb(ctx context.Context, c grid.Cell, i, n, rounds int, o Options) (m run.Rung, err error) {
	dir := filepath.Join(o.Dir, c.Name)
	known, err := run.Rungs(dir)
	if err != nil {
		return m, err
	}
	at := slices.IndexFunc(known, func(m run.Rung) bool { return m.Rounds == rounds })
	if o.Begin != nil {
		o.Begin(i, n, c, at >= 0)
	}
	if at >= 0 {
		return known[at], nil
	}
	s, err := open(ctx, c, o)
	if err != nil {
		return m, err
	}
	defer s.Close()
	if m, err = s.Climb(ctx, rounds); err != nil {
		return m, err
	}
	_, err = reporting.Write(dir)
	return m, err
}
