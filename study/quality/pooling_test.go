package quality

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/fedsim"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/scoring"
	"popri/scoring/query"
)

// Pooling says how many pairs noised scores share with the scores without noise, when releases are read one by one
// and when all releases so far are pooled.
type Pooling struct {
	Encoder string         `json:"encoder"`
	Rounds  []PooledRounds `json:"rounds"`
}

// PooledRounds are the figures for one noise multiplier, the means of the draws.
type PooledRounds struct {
	Sigma float64 `json:"noise_multiplier"`
	// Projected and Pooled are the shares of prompts with the same pair, by round.
	Projected []float64 `json:"projected"`
	Pooled    []float64 `json:"pooled"`
}

// BenchmarkPooling says how many pairs survive the noise of eight releases, with each release projected and with all
// releases so far pooled, by rounds. It reads the texts of the embedded default, which are no secret, without noise.
func BenchmarkPooling(b *testing.B) {
	c, err := configs.Load(configs.LoadOptions{Preset: "demo-rounds"})
	if err != nil {
		b.Fatal(err)
	}
	for _, inDomain := range []float64{0, .5} {
		b.Run(fmt.Sprintf("in-domain=%g", inDomain), func(b *testing.B) {
			for b.Loop() {
				q, err := measurePooling(*c, poolingOptions{Sigmas: []float64{1.71, 9.01}, Rounds: 8, InDomain: inDomain})
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range q.Rounds {
					b.Logf("σ %g: projected %.2f, pooled %.2f", r.Sigma, r.Projected, r.Pooled)
				}
			}
		})
	}
}

// poolingOptions say what [measurePooling] simulates.
type poolingOptions struct {
	Sigmas []float64 // noise multipliers of a release
	Rounds int
	// InDomain is the share of the last round's samples that are public texts of the clients' own folders. It grows
	// evenly from 0 in round 1, as the samples of a generator that learns come nearer to the clients.
	InDomain float64
}

// poolingClients is the largest number of groups of public texts that show the scale of clients' scores.
const poolingClients = 512

// measurePooling measures pooling on the embedded default, whose private half is no secret. Public texts stand in for
// samples, K·J new ones in each round, in three draws; the noise is seeded.
func measurePooling(c configs.Config, o poolingOptions) (*Pooling, error) {
	data, encoder, err := dataAndEncoder(c)
	if err != nil {
		return nil, err
	}
	defer assembly.FreeEncoder(encoder)
	held, err := fedsim.Embed(context.Background(), data.Private.Split(clients.Train), encoder, false, nil)
	if err != nil {
		return nil, err
	}
	s := simulated{config: c, options: o, clients: held.Means}
	for at, texts := range map[*embedding.Matrix][]datasets.Text{&s.prompts: data.Public.Prompts,
		&s.domain: data.Public.InDomain} {
		if *at, err = encoder.Encode(datasets.Strings(texts)); err != nil {
			return nil, err
		}
	}
	if n := c.Generate.Prompts * c.Generate.Samples; n > s.prompts.Rows || int(o.InDomain*float64(n)) > s.domain.Rows {
		return nil,
			fmt.Errorf("generate.prompts × generate.samples is %d, more than public texts to stand in for samples: "+
				"%d, and %d of the clients' folders", n, s.prompts.Rows, s.domain.Rows)
	}
	q := &Pooling{Encoder: encoder.Name()}
	for _, sigma := range o.Sigmas {
		rounds := PooledRounds{Sigma: sigma, Projected: make([]float64, o.Rounds), Pooled: make([]float64, o.Rounds)}
		const draws = 3
		for draw := range draws {
			if err := s.run(rng.New(c.Seed, "pooling", strconv.Itoa(draw)), sigma, &rounds, 1.0/draws); err != nil {
				return nil, err
			}
		}
		q.Rounds = append(q.Rounds, rounds)
	}
	return q, nil
}

// simulated is a run without a generator.
type simulated struct {
	config          configs.Config
	options         poolingOptions
	clients         query.Means
	prompts, domain embedding.Matrix // public texts
}

// run adds weight times the shares of one draw.
func (s simulated) run(random *rand.Rand, sigma float64, out *PooledRounds, weight float64) error {
	c, people := s.config, float64(s.clients.Clients)
	standIns := s.standIns()
	pooled := scoring.NewPooled(s.prompts.Dim)
	for round := range s.options.Rounds {
		prepared, err := scoring.Prepare(s.samples(random, round), scoring.Options{
			Normalize: scoring.Normalize(c.Scoring.Normalize), Clip: c.Scoring.ClipNorm})
		if err != nil {
			return err
		}
		truth, err := prepared.Sum(s.clients)
		if err != nil {
			return err
		}
		noise := max(sigma, 1e-9) * c.Scoring.ClipNorm / people
		mean := make([]float64, len(truth))
		for i, v := range truth {
			mean[i] = v/people + noise*random.NormFloat64()
		}
		gain, err := prepared.Gain(standIns)
		if err != nil {
			return err
		}
		if err := pooled.Add(scoring.PooledRelease{Samples: prepared, Mean: mean, Gain: gain,
			Noise: noise}); err != nil {
			return err
		}
		scores, err := pooled.Scores(prepared, gain)
		if err != nil {
			return err
		}
		same := func(sum []float64) ([]float64, error) { return sum, nil }
		for share, read := range map[*float64]func([]float64) ([]float64,
			error){&out.Projected[round]: prepared.Project,
			&out.Pooled[round]: func([]float64) ([]float64, error) { return scores, nil }} {
			noised, err := read(mean)
			if err != nil {
				return err
			}
			figures, err := scoring.Recovered(truth, noised, same, c.Generate.Samples, c.DPO.RejectedRank)
			if err != nil {
				return err
			}
			*share += weight * figures["pairs"]
		}
	}
	return nil
}

// samples draws the stand-ins of a round's samples.
func (s simulated) samples(random *rand.Rand, round int) embedding.Matrix {
	out := embedding.NewMatrix(s.config.Generate.Prompts*s.config.Generate.Samples, s.prompts.Dim)
	near := 0
	if last := s.options.Rounds - 1; last > 0 {
		near = int(s.options.InDomain * float64(out.Rows) * float64(round) / float64(last))
	}
	rows := random.Perm(out.Rows) // so that prompts have samples of both kinds
	for i, from := range random.Perm(s.domain.Rows)[:near] {
		copy(out.Row(rows[i]), s.domain.Row(from))
	}
	for i, from := range random.Perm(s.prompts.Rows)[:out.Rows-near] {
		copy(out.Row(rows[near+i]), s.prompts.Row(from))
	}
	return out
}

// standIns are clients made of public texts, as in a run.
func (s simulated) standIns() query.Means {
	starts, size := scoring.Groups(s.prompts.Rows, scoring.ClientTexts, poolingClients)
	m := query.Means{Clients: len(starts), Dim: s.prompts.Dim, Data: make([]float64, len(starts)*s.prompts.Dim)}
	for i, at := range starts {
		query.MeanRow(m.Row(i), s.prompts.Slice(at, at+size))
	}
	return m
}
