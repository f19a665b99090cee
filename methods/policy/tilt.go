package policy

import (
	"fmt"
	"math"
	"path/filepath"

	"gonum.org/v1/gonum/floats"

	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/target"
	"popri/model/embedding/words"
	"popri/model/lm"
)

// tiltRow is what is added to the logit of a token, as stored.
type tiltRow struct {
	Token  int32   `parquet:"token"`
	Weight float32 `parquet:"weight"`
}

// steer fits the weights of tokens with which the next round's samples are drawn to the released frequencies of words, and stores
// them with the round. All of it is post-processing of the release.
func (p *Policy) steer(r *rounds.Round, t *target.Target, samples []string) error {
	if p.Words == nil {
		return nil
	}
	weights, divergence := fitTilt(p.Words, t.Words, t.WordsNoise, samples, p.tilt)
	r.Figures.Set("words_divergence", divergence)
	p.setTilt(weights)
	stored := make([]tiltRow, len(weights))
	for i, w := range weights {
		stored[i] = tiltRow{p.Words.Tokens[i], w}
	}
	return rows.Write(filepath.Join(r.Dir, rundir.Tilt), stored)
}

// Constants of [fitTilt], chosen on validation clients (docs/experiments.md).
const (
	tiltSpread  = 1.5  // standard deviation of a weight before the release is seen
	mostTilt    = 5.0  // bound on a weight
	tiltStep    = 0.05 // between the weights that are tried; what the release tells of most tokens is coarser
	priorTokens = 5000 // of the samples' tokens, how many the encoder's prior counts as
	tiltRepeats = 4    // of the fit, whose scale follows from its frequencies
)

// fitTilt returns a weight for each token of the encoder, and by how much the samples' frequencies still differ from those that
// the weights aim at (Kullback-Leibler divergence, in nats a token). The samples were drawn with the weights before, nil for none.
//
// The clients' frequencies are taken to be those of the samples, h, moved by the change of the weights from b to w:
//
//	wanted_i = scale · a_i · h_i · exp(w_i − b_i) + noise,    w_i ~ N(0, tiltSpread²)
//
// where a are the encoder's weights, and the noise is that of the release and that of h, which is estimated from few samples. The
// weights are those of the highest posterior density, so that a token of which the release tells nothing keeps the model's
// frequency: regularised maximum entropy, whose features are the frequencies.
func fitTilt(e *words.Encoder, wanted []float64, noise float64, samples []string, before []float32) (weights []float32, divergence float64) {
	have, total := e.Count(samples)
	for i, prior := range e.Prior {
		have[i] = (have[i] + priorTokens*prior) / (total + priorTokens)
	}
	if before == nil {
		before = make([]float32, len(have))
	}
	weights = make([]float32, len(have))
	aimed, expected := append([]float64(nil), have...), make([]float64, len(have))
	for range tiltRepeats {
		for i, f := range aimed {
			expected[i] = float64(e.Weights[i]) * f
		}
		scale := max(floats.Dot(wanted, expected), 0) / floats.Dot(expected, expected)
		for i, h := range have {
			unit := scale * float64(e.Weights[i])
			weights[i] = likeliest(wanted[i], unit*h, noise*noise+unit*unit*h/(total+1), float64(before[i]))
			aimed[i] = h * math.Exp(float64(weights[i]-before[i]))
		}
		floats.Scale(floats.Sum(have)/floats.Sum(aimed), aimed) // a constant on all weights changes nothing
	}
	for i, f := range aimed {
		divergence += f * math.Log(f/have[i])
	}
	return weights, divergence / floats.Sum(aimed)
}

// likeliest returns the weight w within the bound that minimises (wanted − base·exp(w − before))²/2variance + w²/2tiltSpread². The
// function may have several minima, hence the search.
func likeliest(wanted, base, variance, before float64) float32 {
	best, least := 0.0, math.Inf(1)
	for step := range 2*int(mostTilt/tiltStep) + 1 {
		w := float64(step)*tiltStep - mostTilt
		miss := wanted - base*math.Exp(w-before)
		if v := miss*miss/(2*variance) + w*w/(2*tiltSpread*tiltSpread); v < least {
			best, least = w, v
		}
	}
	return float32(best)
}

// restoreTilt sets the weights to their state after a complete round.
func (p *Policy) restoreTilt(round int) error {
	p.tilt, p.Writer.Tilt = nil, nil
	if p.Words == nil || round == 0 {
		return nil
	}
	path := filepath.Join(rundir.Round(p.Dir, round), rundir.Tilt)
	stored, err := rows.Read[tiltRow](path)
	if err != nil {
		return err
	}
	if len(stored) != len(p.Words.Tokens) {
		return fmt.Errorf("policy: %s has the weights of %d tokens, the encoder counts %d", path, len(stored), len(p.Words.Tokens))
	}
	weights := make([]float32, len(stored))
	for i, row := range stored {
		weights[i] = row.Weight
	}
	p.setTilt(weights)
	return nil
}

// setTilt draws samples from now on with these weights of the encoder's tokens.
func (p *Policy) setTilt(weights []float32) {
	tilt := make(lm.Tilt, p.Model.Config.Vocab)
	for i, w := range weights {
		tilt[p.Words.Tokens[i]] = w
	}
	p.tilt, p.Writer.Tilt = weights, tilt
}
