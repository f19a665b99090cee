package policy

import (
	"context"
	"math"
	"path/filepath"

	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/scoring"
	"popri/scoring/query"
)

// EachRound asks the clients in every round for their mean cosine with each of its samples (scoring.release "rounds").
type EachRound struct {
	*method.Env
	standIns query.Means // clients made of public texts, see gain
}

func (f *EachRound) options() scoring.Options {
	return scoring.Options{Normalize: scoring.Normalize(f.Config.Scoring.Normalize), Clip: f.Config.Scoring.ClipNorm}
}

// Facts implements [Feedback]. Scores are linear in a client's mean.
func (f *EachRound) Facts() Facts {
	c, o := f.Config, f.options()
	scores := c.Trainer.Rounds * c.Generate.Prompts * c.Generate.Samples
	facts := Facts{Query: scoring.CosineName(o.Normalize), Bound: o.Clip, Releases: c.Trainer.Rounds,
		Denoise: c.Scoring.Denoise, Traffic: method.Traffic{Sent: scores, Received: scores * c.Scoring.Dim}}
	if c.Scoring.Denoise == "project" {
		facts.Notes = []string{"After its release, each sum was projected onto the space in which the true sum lies, " +
			"which takes noise out. The projection uses the released sum and the samples only, so it costs no privacy."}
	}
	return facts
}

// Begin implements [Feedback].
func (f *EachRound) Begin(context.Context, *rounds.Round) error { return nil }

// Ask implements [Feedback].
func (f *EachRound) Ask(r *rounds.Round, c Candidates) (Answer, error) {
	key, err := f.Key(filepath.Join(r.Dir, rundir.Samples))
	if err != nil {
		return nil, err
	}
	q, err := scoring.NewCosine(c.Vectors, f.options(), key)
	if err != nil {
		return nil, err
	}
	answer, err := r.Collect(q)
	if err != nil {
		return nil, err
	}
	return &roundAnswer{f, q.Samples, answer}, nil
}

// Reread is the answer that a release about candidates holds.
func (f *EachRound) Reread(c Candidates, answer *release.Release) (Answer, error) {
	q, err := scoring.NewCosine(c.Vectors, f.options(), answer.Key)
	return &roundAnswer{f, q.Samples, answer}, err
}

// roundAnswer is the release of a round.
type roundAnswer struct {
	*EachRound
	samples *scoring.Samples
	release *release.Release
}

// Scores implements [Answer].
func (a *roundAnswer) Scores(r *rounds.Round) (noisy, scores []float64, err error) {
	s := a.Config.Scoring
	noisy = a.release.Mean()
	gain := 0.0
	if s.Objective == "witness" {
		if gain, err = a.gain(a.samples); err != nil {
			return nil, nil, err
		}
	}
	if scores = noisy; s.Denoise == "project" {
		if scores, err = a.samples.Project(noisy); err != nil {
			return nil, nil, err
		}
		r.Figures.Set("noise_kept", math.Sqrt(float64(a.samples.Rank())/float64(a.samples.Len())))
	}
	if s.Objective == "witness" {
		scores, err = a.samples.Witness(scores, gain)
	}
	return noisy, scores, err
}

// gainClients is the largest number of clients made of public texts that replace the real ones when the scale of scores
// is measured.
const gainClients = 512

// gain measures the factor by which normalising and clipping scale a client's cosines, on clients made of successive
// public texts (see scoring.Groups). They are embedded once.
func (f *EachRound) gain(samples *scoring.Samples) (float64, error) {
	if f.standIns.Clients == 0 {
		var err error
		if f.standIns, err = f.publicClients(); err != nil {
			return 0, err
		}
	}
	return samples.Gain(f.standIns)
}

func (f *EachRound) publicClients() (query.Means, error) {
	texts := f.Prompter.Texts()
	starts, each := scoring.Groups(len(texts), scoring.ClientTexts, gainClients)
	var chosen []string
	offsets := []int{0}
	for _, at := range starts {
		chosen = append(chosen, texts[at:at+each]...)
		offsets = append(offsets, len(chosen))
	}
	vectors, err := f.Encoder.Encode(chosen)
	if err != nil {
		return query.Means{}, err
	}
	return query.MeanEmbeddings(vectors, offsets)
}
