// Package texts reads the samples of a run's rounds as people look at them: with score, rank and prompt, and what the
// method did with each. It knows the rounds' files and no method.
package texts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"popri/internal/numeric"
	"popri/internal/rows"
	"popri/internal/rundir"
)

// Mark says what a method did with a sample.
type Mark string

// The marks.
const (
	None     Mark = ""
	Chosen   Mark = "chosen"   // preferred in a pair, selected, or trained on
	Rejected Mark = "rejected" // the other one of a pair
	Both     Mark = "both"     // chosen in one pair and rejected in another
)

// Sample is a text that was scored.
type Sample struct {
	Prompt int // index in [Round.Prompts]; -1 if it has none
	Text   string
	Score  float64 // NaN if it has none yet
	Rank   int     // among the samples of its prompt, or of the round without prompts; 1 has the highest score, 0 is unknown
	Mark   Mark
}

// Round is what was written and scored in a round.
type Round struct {
	Number  int
	Prompts []string // "" for one whose text is not stored
	Samples []Sample
}

type (
	sampleRow struct {
		Prompt int64  `parquet:"prompt_index"`
		Sample int64  `parquet:"sample_index"`
		Text   string `parquet:"text"`
	}
	promptRow struct {
		Index int64  `parquet:"prompt_index"`
		Text  string `parquet:"prompt"`
	}
	scoreRow struct {
		Prompt int64   `parquet:"prompt_index"`
		Sample int64   `parquet:"sample_index"`
		Score  float64 `parquet:"score"`
	}
	pairRow struct {
		Prompt   int64 `parquet:"prompt_index"`
		Chosen   int64 `parquet:"chosen_index"`
		Rejected int64 `parquet:"rejected_index"`
	}
	votesRow struct {
		Sample int64   `parquet:"sample_index"`
		Votes  float64 `parquet:"votes"`
		Copies int64   `parquet:"copies"`
	}
)

// at identifies a sample in its round.
type at struct{ prompt, sample int64 }

// Read reads the samples of a round, with whatever is known of them so far. A round without samples is an
// fs.ErrNotExist.
func Read(run string, round int) (Round, error) {
	r, dir := Round{Number: round}, rundir.Round(run, round)
	path := filepath.Join(dir, rundir.Samples)
	columns, err := rows.Columns(path)
	if err != nil {
		return r, err
	}
	prompted := slices.Contains(columns, "prompt_index")
	stored, err := rows.Read[sampleRow](path)
	if err != nil {
		return r, err
	}
	if prompted {
		if err := r.readPrompts(dir, stored); err != nil {
			return r, err
		}
	}
	index := make(map[at]int, len(stored))
	for i, s := range stored {
		sample := Sample{Prompt: -1, Text: s.Text, Score: math.NaN()}
		if prompted {
			sample.Prompt = int(s.Prompt)
		}
		r.Samples = append(r.Samples, sample)
		index[at{s.Prompt, s.Sample}] = i
	}
	if err := r.readScores(dir, index); err != nil {
		return r, err
	}
	r.rank()
	return r, nil
}

// maxPrompts is far above what a round has, and bounds the memory that a damaged index takes.
const maxPrompts = 10_000_000

func (r *Round) readPrompts(dir string, samples []sampleRow) error {
	stored, err := rows.Optional[promptRow](filepath.Join(dir, rundir.Prompts))
	if err != nil {
		return err
	}
	last := int64(-1)
	for _, p := range stored {
		last = max(last, p.Index)
	}
	for _, s := range samples {
		if last = max(last, s.Prompt); s.Prompt < 0 {
			return errors.New("texts: " + dir + ": a sample has a negative prompt_index")
		}
	}
	if last >= maxPrompts {
		return errors.New("texts: " + dir + ": a prompt_index is out of range")
	}
	r.Prompts = make([]string, last+1)
	for _, p := range stored {
		if p.Index >= 0 {
			r.Prompts[p.Index] = p.Text
		}
	}
	return nil
}

// readScores reads the scores or votes, and what was chosen by them. Each file may be missing.
func (r *Round) readScores(dir string, index map[at]int) error {
	scores, noScores := rows.Optional[scoreRow](filepath.Join(dir, rundir.Scores))
	pairs, noPairs := rows.Optional[pairRow](filepath.Join(dir, rundir.Pairs))
	chosen, err := rows.Optional[scoreRow](filepath.Join(dir, rundir.Chosen))
	if err = cmp.Or(noScores, noPairs, err); err != nil {
		return err
	}
	for _, s := range scores {
		if i, ok := index[at{s.Prompt, s.Sample}]; ok {
			r.Samples[i].Score = s.Score
		}
	}
	for _, p := range pairs {
		r.mark(index, at{p.Prompt, p.Chosen}, Chosen)
		r.mark(index, at{p.Prompt, p.Rejected}, Rejected)
	}
	for _, c := range chosen {
		r.mark(index, at{c.Prompt, c.Sample}, Chosen)
	}
	// The selection of public texts has the same name and other columns.
	path := filepath.Join(dir, rundir.Selection)
	columns, err := rows.Columns(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !slices.Contains(columns, "votes") {
		return nil
	}
	if err != nil {
		return err
	}
	votes, err := rows.Read[votesRow](path)
	if err != nil {
		return err
	}
	for _, v := range votes {
		if i, ok := index[at{0, v.Sample}]; ok {
			r.Samples[i].Score = v.Votes
			if v.Copies > 0 {
				r.Samples[i].Mark = Chosen
			}
		}
	}
	return nil
}

func (r *Round) mark(index map[at]int, where at, m Mark) {
	i, ok := index[where]
	if !ok {
		return
	}
	if s := &r.Samples[i]; s.Mark == None {
		s.Mark = m
	} else if s.Mark != m {
		s.Mark = Both
	}
}

// rank numbers the samples of each prompt by descending score; equal scores keep their order.
func (r *Round) rank() {
	order := numeric.Where(len(r.Samples), func(i int) bool { return !math.IsNaN(r.Samples[i].Score) })
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := r.Samples[a], r.Samples[b]
		return cmp.Or(cmp.Compare(x.Prompt, y.Prompt), cmp.Compare(y.Score, x.Score))
	})
	for n, i := range order {
		r.Samples[i].Rank = 1
		if n > 0 && r.Samples[order[n-1]].Prompt == r.Samples[i].Prompt {
			r.Samples[i].Rank = r.Samples[order[n-1]].Rank + 1
		}
	}
}

// Visible makes a text of unknown origin safe to show: valid UTF-8 of at most limit characters, in which control
// characters and those that change the direction of writing are named instead of carried out. Line ends and tabs stay.
// A limit of 0 or less cuts nothing.
func Visible(text string, limit int) string {
	var b strings.Builder
	n := 0
	for i, r := range text {
		if limit > 0 && n == limit {
			rest := utf8.RuneCountInString(text[i:])
			fmt.Fprintf(&b, "… (%d more characters)", rest)
			break
		}
		n++
		switch {
		case r == '\n', r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029', r == '\ufeff':
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r) // an invalid byte is ranged over as U+FFFD
		}
	}
	return b.String()
}
