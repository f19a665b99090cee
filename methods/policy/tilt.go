package policy

import (
	"fmt"
	"math"
	"path/filepath"

	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/target"
	"popri/model/embedding"
	"popri/model/embedding/words"
	"popri/model/lm"
)

// How the tilt follows the released frequencies of words (scoring.features=words): by a share of the logarithm of their ratio in
// a round, up to a bound. With 0.8 and 0.6, the distance that is left swung from round to round.
const (
	tokenStep, pairStep = 0.5, 0.3
	mostTilt            = 4.0
)

// tiltRow is the weight of a gram as stored.
type tiltRow struct {
	Before int32   `parquet:"before"` // words.None for a token alone
	Token  int32   `parquet:"token"`
	Weight float32 `parquet:"weight"`
}

// steer moves the weights of tokens and pairs of tokens, with which the samples of the next round are drawn, towards the clients'
// frequencies, and stores them with the round. It is generalised iterative scaling of a log-linear model, whose features are the
// frequencies; all of it is post-processing of the release.
func (p *Policy) steer(r *rounds.Round, t *target.Target, points embedding.Matrix) error {
	encoder, ok := p.Encoder.(*words.Encoder)
	if !ok {
		return nil
	}
	wanted, have, noise := t.Words(points)
	// ratio is the logarithm of how much more frequent a gram should be than it is, or would be after the tokens' steps. Twice the
	// noise on both sides keeps what the noise hides from counting.
	level := 2 * noise
	ratio := func(i int, is float64) float64 { return math.Log((max(wanted[i], 0) + level) / (is + level)) }
	steps := map[int32]float64{} // of tokens
	for i, g := range encoder.Grams {
		if g.Before == words.None {
			steps[g.Token] = tokenStep * ratio(i, have[i])
		}
	}
	square := 0.0
	moved := make([]tiltRow, len(encoder.Grams))
	for i, g := range encoder.Grams {
		weight := 0.0
		if p.tilt != nil {
			weight = float64(p.tilt[i].Weight)
		}
		step := steps[g.Token]
		if g.Before != words.None {
			step = pairStep * ratio(i, have[i]*math.Exp(steps[g.Before]+steps[g.Token]))
		}
		// Without this bound, the noise of rare tokens would add up over the rounds: one that is never written stays as far from
		// what the noise asks for.
		most := min(mostTilt, ratio(i, 0))
		moved[i] = tiltRow{g.Before, g.Token, float32(max(-mostTilt, min(most, weight+step)))}
		square += (wanted[i] - have[i]) * (wanted[i] - have[i])
	}
	r.Figures.Set("words_distance", math.Sqrt(square))
	p.setTilt(moved)
	return rows.Write(filepath.Join(r.Dir, rundir.Tilt), moved)
}

// restoreTilt sets the tilt to its state after a complete round.
func (p *Policy) restoreTilt(round int) error {
	p.tilt, p.Writer.Tilt = nil, nil
	encoder, ok := p.Encoder.(*words.Encoder)
	if !ok || round == 0 {
		return nil
	}
	path := filepath.Join(rundir.Round(p.Dir, round), rundir.Tilt)
	stored, err := rows.Read[tiltRow](path)
	if err != nil {
		return err
	}
	if len(stored) != len(encoder.Grams) {
		return fmt.Errorf("policy: %s has the weights of %d tokens and pairs, the encoder counts %d", path, len(stored), len(encoder.Grams))
	}
	p.setTilt(stored)
	return nil
}

// setTilt draws samples from now on with these weights.
func (p *Policy) setTilt(list []tiltRow) {
	t := &lm.Tilt{Tokens: make([]float32, p.Model.Config.Vocab), After: map[int32][]lm.TokenWeight{}}
	for _, row := range list {
		if row.Before == words.None {
			t.Tokens[row.Token] = row.Weight
		} else {
			t.After[row.Before] = append(t.After[row.Before], lm.TokenWeight{Token: row.Token, Weight: row.Weight})
		}
	}
	p.tilt, p.Writer.Tilt = list, t
}
