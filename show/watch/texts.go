package watch

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"popri/internal/numeric"
	"popri/internal/rundir"
	"popri/show/texts"
)

const (
	shownTexts  = 5    // of the best, and of the worst
	shownLength = 1200 // characters of a text: about five times what models write
)

type shownText struct {
	Score *float64 `json:"score"`
	Rank  int      `json:"rank"`
	Mark  string   `json:"mark"`
	Text  string   `json:"text"`
}

// roundTexts are the texts of the newest round that has some.
type roundTexts struct {
	Round   int         `json:"round"`
	Samples int         `json:"samples"`
	Scored  bool        `json:"scored"`
	Best    []shownText `json:"best"`
	Worst   []shownText `json:"worst"`
	Problem string      `json:"problem,omitempty"`
}

// readTexts reads the newest round's texts again if they have changed.
func (w *Watcher) readTexts() (changed bool) {
	newest := max(w.state.stage.Round, len(w.state.rounds))
	for round := newest; round > 0; round-- {
		mark := textsMark(w.Dir, round)
		if mark == "" {
			continue
		}
		if mark == w.textsMark {
			return false
		}
		w.textsMark = mark
		w.texts = pickTexts(w.Dir, round)
		return true
	}
	return false
}

// textsMark changes when a file with a round's texts, scores or pairs does; "" if it has no texts yet.
func textsMark(run string, round int) (mark string) {
	for i, name := range []string{rundir.Samples, rundir.Scores, rundir.Pairs, rundir.Chosen, rundir.Selection} {
		info, err := os.Stat(filepath.Join(rundir.Round(run, round), name))
		if err != nil {
			if i == 0 {
				return ""
			}
			continue
		}
		mark += fmt.Sprint(round, name, info.Size(), info.ModTime().UnixNano(), ";")
	}
	return mark
}

func pickTexts(run string, round int) roundTexts {
	out := roundTexts{Round: round}
	r, err := texts.Read(run, round)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	out.Samples = len(r.Samples)
	order := numeric.Where(len(r.Samples), func(i int) bool { return !math.IsNaN(r.Samples[i].Score) })
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Samples[b].Score, r.Samples[a].Score) })
	if out.Scored = len(order) > 0; !out.Scored {
		order = numeric.Indices(len(r.Samples))
	}
	show := func(list []int) (shown []shownText) {
		for _, i := range list {
			s := r.Samples[i]
			shown = append(shown, shownText{known(s.Score), s.Rank, string(s.Mark), texts.Visible(s.Text, shownLength)})
		}
		return shown
	}
	n := min(shownTexts, len(order))
	out.Best = show(order[:n])
	if out.Scored {
		worst := slices.Clone(order[max(n, len(order)-shownTexts):])
		slices.Reverse(worst)
		out.Worst = show(worst)
	}
	return out
}
