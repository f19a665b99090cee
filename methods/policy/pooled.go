package policy

import (
	"fmt"
	"path/filepath"
	"strconv"

	"popri/release"
	"popri/rundir"
	"popri/safetensors"
	"popri/scoring"
	"popri/trainer"
)

// PooledFile has the sums over all releases up to a round, in the folder of the round, from which the next round goes on
// (scoring.denoise "pool").
const PooledFile = "pooled.safetensors"

// leastNoise is the least noise of a released mean that counts, in units of the clip norm, so that releases without noise
// can be weighted.
const leastNoise = 1e-12

// pooled adds a round's release, given as a mean over the clients, to those before it, and returns the scores of the round's
// samples by all of them.
func (p *Policy) pooled(r *trainer.Round, prepared *scoring.Samples, answer *release.Release, mean []float64,
	gain float64) ([]float64, error) {
	estimate, err := p.pooledBefore(r.Number, prepared.Dim())
	if err != nil {
		return nil, err
	}
	noise := max(answer.NoiseStd()/float64(answer.Clients), leastNoise*p.Config.Scoring.ClipNorm)
	err = estimate.Add(scoring.PooledRelease{Samples: prepared, Mean: mean, Compact: compact(p.Config), Gain: gain, Noise: noise})
	if err != nil {
		return nil, err
	}
	left, err := estimate.Noise(prepared, gain)
	if err != nil {
		return nil, err
	}
	r.Figures.Set("noise_kept", left/noise)
	scores, err := estimate.Scores(prepared, gain)
	if err != nil {
		return nil, err
	}
	a, b := estimate.Sums()
	d := int64(len(b))
	return scores, safetensors.Write(filepath.Join(r.Dir, PooledFile), []safetensors.Tensor{
		safetensors.FromFloat64("a", []int64{d, d}, a), safetensors.FromFloat64("b", []int64{d}, b)},
		map[string]string{"releases": strconv.Itoa(estimate.Releases())})
}

// pooledBefore returns the estimate from the releases of all rounds before one.
func (p *Policy) pooledBefore(round, dim int) (*scoring.Pooled, error) {
	if round <= 1 {
		return scoring.NewPooled(dim), nil
	}
	path := filepath.Join(rundir.Round(p.Dir, round-1), PooledFile)
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: the releases before round %d: %w", round, err)
	}
	defer f.Close()
	if has, want := f.Metadata()["releases"], strconv.Itoa(round-1); has != want {
		return nil, fmt.Errorf("policy: %s is of %q releases, want %s", path, has, want)
	}
	var sums [2][]float64
	for i, name := range []string{"a", "b"} {
		tensor, ok := f.Tensor(name)
		if !ok {
			return nil, fmt.Errorf("policy: %s has no tensor %q", path, name)
		}
		if sums[i], err = tensor.Float64s(); err != nil {
			return nil, fmt.Errorf("policy: %s: %w", path, err)
		}
	}
	pooled, err := scoring.RestorePooled(round-1, sums[0], sums[1])
	if err != nil {
		return nil, fmt.Errorf("policy: %s: %w", path, err)
	}
	return pooled, nil
}
