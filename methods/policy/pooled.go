package policy

import (
	"fmt"
	"path/filepath"
	"strconv"

	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/model/safetensors"
	"popri/scoring"
)

// PooledFile has the sums over all releases up to a round, in the folder of the round, from which the next round goes
// on (scoring.denoise "pool").
const PooledFile = "pooled.safetensors"

// leastNoise is the least noise of a released mean that counts, in units of the clip norm, so that releases without
// noise can be weighted.
const leastNoise = 1e-12

// pooled adds a round's release, given as a mean over the clients, to those before it, and returns the scores of the
// round's samples by all of them.
func (a *roundAnswer) pooled(r *rounds.Round, mean []float64, gain float64) ([]float64, error) {
	estimate, err := a.pooledBefore(r.Number, a.samples.Dim())
	if err != nil {
		return nil, err
	}
	noise := max(a.release.NoiseStd()/float64(a.release.Clients), leastNoise*a.Config.Scoring.ClipNorm)
	err = estimate.Add(scoring.PooledRelease{Samples: a.samples, Mean: mean, Compact: a.compact(), Gain: gain,
		Noise: noise})
	if err != nil {
		return nil, err
	}
	left, err := estimate.Noise(a.samples, gain)
	if err != nil {
		return nil, err
	}
	r.Figures.Set("noise_kept", left/noise)
	scores, err := estimate.Scores(a.samples, gain)
	if err != nil {
		return nil, err
	}
	sums, right := estimate.Sums()
	d := int64(len(right))
	return scores, safetensors.Write(filepath.Join(r.Dir, PooledFile), []safetensors.Tensor{
		safetensors.FromFloat64("a", []int64{d, d}, sums), safetensors.FromFloat64("b", []int64{d}, right)},
		map[string]string{"releases": strconv.Itoa(estimate.Releases())})
}

// pooledBefore returns the estimate from the releases of all rounds before one.
func (f *EachRound) pooledBefore(round, dim int) (*scoring.Pooled, error) {
	if round <= 1 {
		return scoring.NewPooled(dim), nil
	}
	path := filepath.Join(rundir.Round(f.Dir, round-1), PooledFile)
	file, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: the releases before round %d: %w", round, err)
	}
	defer file.Close()
	if has, want := file.Metadata()["releases"], strconv.Itoa(round-1); has != want {
		return nil, fmt.Errorf("policy: %s is of %q releases, want %s", path, has, want)
	}
	var sums [2][]float64
	for i, name := range []string{"a", "b"} {
		tensor, ok := file.Tensor(name)
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
