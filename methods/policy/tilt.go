package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
	"popri/model/embedding/words"
	"popri/model/lm"
)

// tiltRow is what is added to the logit of a token, as stored, and after how many passes of [Policy.calibrate].
type tiltRow struct {
	Pass   int64   `parquet:"pass"`
	Token  int32   `parquet:"token"`
	Weight float32 `parquet:"weight"`
}

// A pass of [Policy.calibrate] draws calibrationTexts texts; after calibrationPasses of them, the frequencies hardly move.
const calibrationPasses, calibrationTexts = 3, 1000

// calibration is a pass in the event "calibration".
type calibration struct {
	Pass       int     `json:"pass"`
	Divergence float64 `json:"divergence"` // of the texts' frequencies from those that the weights aim at, in nats a token
}

// calibrate returns the weights of tokens with which texts of the product have the clients' frequencies of words, as the release
// tells them: it draws texts as the product is drawn, fits the weights, and repeats. All of it is post-processing of the release.
func (p *Policy) calibrate(ctx context.Context, s rounds.Stage, model sampling.Sampler, prompter *sampling.Prompter) (lm.Tilt, error) {
	dir := rundir.Round(p.Dir, max(1, p.round))
	weights, done, err := p.readTilt(filepath.Join(dir, rundir.Tilt))
	if err != nil {
		return nil, err
	}
	wanted, noise, err := target.Words(p.Env)
	if err != nil {
		return nil, err
	}
	for pass := done + 1; pass <= calibrationPasses; pass++ {
		writer, c := p.Writer, p.Config.Synthetic
		writer.Tilt, c.Texts = p.tilt(weights), min(c.Texts, calibrationTexts)
		seed := rng.Seed(p.Config.Seed, "calibration", strconv.Itoa(pass))
		texts, err := writer.Set(ctx, model, prompter, c, seed, "calibration", calibrationFile(dir, pass), s.Progress)
		if err != nil {
			return nil, err
		}
		var divergence float64
		weights, divergence = fitTilt(p.Words, wanted, noise, sampling.Texts(texts), weights)
		stored := make([]tiltRow, len(weights))
		for i, w := range weights {
			stored[i] = tiltRow{int64(pass), p.Words.Tokens[i], w}
		}
		if err := rows.Write(filepath.Join(dir, rundir.Tilt), stored); err != nil {
			return nil, err
		}
		s.Log("calibration", calibration{pass, divergence})
	}
	for pass := range calibrationPasses {
		if err := os.RemoveAll(calibrationFile(dir, pass+1)); err != nil {
			return nil, err
		}
	}
	return p.tilt(weights), nil
}

// calibrationFile has the texts of a pass until the weights are final.
func calibrationFile(dir string, pass int) string {
	return filepath.Join(dir, fmt.Sprintf("calibration-%d.parquet", pass))
}

// readTilt reads the weights that an interrupted [Policy.calibrate] left, and after which pass; nil and 0 if there are none.
func (p *Policy) readTilt(path string) (weights []float32, pass int, err error) {
	stored, err := rows.Read[tiltRow](path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err == nil && len(stored) != len(p.Words.Tokens) {
		err = fmt.Errorf("policy: %s has the weights of %d tokens, the encoder counts %d", path, len(stored), len(p.Words.Tokens))
	}
	for _, row := range stored {
		weights, pass = append(weights, row.Weight), int(row.Pass)
	}
	return weights, pass, err
}

// tilt gives each token of the vocabulary its weight; nil stays nil.
func (p *Policy) tilt(weights []float32) lm.Tilt {
	if weights == nil {
		return nil
	}
	t := make(lm.Tilt, p.Model.Config.Vocab)
	for i, w := range weights {
		t[p.Words.Tokens[i]] = w
	}
	return t
}

// Constants of [fitTilt], chosen on validation clients (docs/experiments.md).
const (
	tiltSpread  = 1.0  // standard deviation of a weight before the release is seen
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
