package policy

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"popri/datasets"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
)

// The search for the clients' kinds of text asks for each kind kindSamples times, and then kindPrompts × kindSamples
// times for the kinds that it found.
const kindSamples, kindPrompts = 3, 120

// KindSamples is the number of samples that the search writes for a list of this number of kinds.
func KindSamples(kinds int) int { return kindSamples * (kinds + kindPrompts) }

// kindShare is the least fraction of the samples that the weights leave as effective number, and quotedKinds the number of
// samples that round 1 quotes, repetitions counted.
const kindShare, quotedKinds = 0.1, 300

// Found is what the search found, in the event "kinds" and in the folder of round 1.
type Found struct {
	Kinds []KindShare `json:"kinds"` // the largest share first
}

// namedKinds is the number of kinds that a sentence names.
const namedKinds = 5

// String says which kinds of text the prompts ask for.
func (f Found) String() string {
	var list []string
	rest := 0.0
	for i, k := range f.Kinds {
		if i < namedKinds {
			list = append(list, fmt.Sprintf("%s (%.0f %%)", k.Kind, 100*k.Share))
		} else {
			rest += k.Share
		}
	}
	if n := len(f.Kinds) - namedKinds; n > 0 {
		list = append(list, fmt.Sprintf("%d others (%.0f %%)", n, 100*rest))
	}
	return "the release says that the clients write texts like " + strings.Join(list, ", ") +
		"; round 1 asks the model for these"
}

// KindShare is a kind of text and its fraction of the samples that the release's weights draw.
type KindShare struct {
	Kind  string  `json:"kind"`
	Share float64 `json:"share"`
}

// findKinds asks the model for each of the kinds of text, and weights what it writes so that its mean embedding comes
// to the clients'; then once more for the kinds that got weight. The samples that the weights draw are what round 1
// quotes. All of it is post-processing of the release.
func (f *Single) findKinds(ctx context.Context, r *rounds.Round, s rounds.Stage) error {
	p := f.policy
	asked := p.Given.Kinds
	var all, drawn []sampling.Row
	for pass := 1; pass <= 2; pass++ {
		written, err := f.askFor(ctx, r, s, pass, asked)
		if err != nil {
			return err
		}
		all = append(all, written...)
		n := quotedKinds
		if pass == 1 {
			n = kindPrompts
		}
		var kept target.Kept
		drawn, kept, err = f.target.Keep(ctx, p.Encoder, all, n, kindShare, p.Config.Seed, s.Progress)
		if err != nil {
			return err
		}
		s.Log("kept", kept)
		asked = numeric.Map(drawn, func(row sampling.Row) string { return row.Kind })
	}
	f.found = numeric.Map(drawn, func(row sampling.Row) datasets.Text {
		return datasets.Text{Text: f.target.Form.Style.Write(quotable(row)), Kind: row.Kind}
	})
	if f.found = p.Prompter.Fitting(f.found); len(f.found) == 0 {
		return fmt.Errorf("none of the %d samples that were written for kinds of text can be quoted", len(all))
	}
	found := Found{shares(f.found)}
	s.Log("kinds", found)
	s.Say(found.String())
	return atomicfile.WriteJSON(filepath.Join(r.Dir, rundir.Kinds), found)
}

// askFor writes samples of kinds, one prompt for each.
func (f *Single) askFor(ctx context.Context, r *rounds.Round, s rounds.Stage, pass int, kinds []string) (
	[]sampling.Row, error) {
	p := f.policy
	name := "kinds-" + strconv.Itoa(pass)
	file := filepath.Join(r.Dir, name+".parquet")
	prompts := numeric.Map(kinds, p.Prompter.Asking)
	batch := p.Writer.Batch(p.Prompter, prompts, kindSamples, rng.Seed(p.Config.Seed, name), "search for kinds of text")
	return p.written(ctx, s, p.Adapter, batch, file)
}

// shares counts kinds, the most frequent first.
func shares(texts []datasets.Text) []KindShare {
	count := map[string]float64{}
	for _, t := range texts {
		count[t.Kind] += 1 / float64(len(texts))
	}
	var out []KindShare
	for kind, share := range count {
		out = append(out, KindShare{kind, share})
	}
	slices.SortFunc(out, func(a, b KindShare) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
