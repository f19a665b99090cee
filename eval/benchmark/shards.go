package benchmark

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"popri/fedsim/sealing"
	"popri/fedsim/shard"
	"popri/internal/fault"
	"popri/internal/memory"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// ShardsOptions say what [Shards] scores.
type ShardsOptions struct {
	Clients, Shards int
	Samples, Dim    int    // of the question
	Query           string // its name; a query that needs the clients' texts is an error
}

// ShardsResult is what scoring in shards takes.
type ShardsResult struct {
	Query        string  `json:"query"`
	Clients      int     `json:"clients"`
	Shards       int     `json:"shards"`
	Dim          int     `json:"dim"`
	Samples      int     `json:"samples"`
	Make         float64 `json:"make_seconds"`        // to make up the clients, which is no part of the work
	Score        float64 `json:"score_seconds"`       // of all shards, one after the other
	Whole        float64 `json:"whole_seconds"`       // the same clients in one part
	Merge        float64 `json:"merge_seconds"`       // decrypt, add and finish
	PerMillion   float64 `json:"seconds_per_million"` // Score for 10⁶ clients
	PartBytes    int64   `json:"part_bytes"`          // the file of a partial sum
	Peak         int64   `json:"peak_bytes"`          // largest resident size of the process so far
	BitForBit    bool    `json:"bit_for_bit"`         // the merged sum is that of one part
	HoursBillion float64 `json:"hours_per_billion"`   // Score for 10⁹ clients, on one machine
}

// Shards adds up made-up clients' means in shards that are encrypted, on disk and merged, and once more in one part.
// Clients exist in batches alone, so memory does not grow with their number.
func Shards(o ShardsOptions) (*ShardsResult, error) {
	if o.Clients < 1 || o.Shards < 1 || o.Shards > shard.MaxShards || o.Samples < 2 || o.Dim < 2 {
		return nil, fault.Userf("%d clients in %d shards, %d samples of %d dimensions: want at least 1, 1, 2 and 2",
			o.Clients, o.Shards, o.Samples, o.Dim)
	}
	samples := embedding.NewMatrix(o.Samples, o.Dim)
	random := rng.New(1, "benchmark", "samples")
	for i := range samples.Data {
		samples.Data[i] = float32(random.NormFloat64())
	}
	m, err := askable(o.Query, scoring.Unit(samples))
	if err != nil {
		return nil, err
	}
	described, err := scoring.Describe(m)
	if err != nil {
		return nil, fault.User(err)
	}
	dir, err := os.MkdirTemp("", "popri-shards-")
	if err != nil {
		return nil, err
	}
	r := &ShardsResult{Query: o.Query, Clients: o.Clients, Shards: o.Shards, Dim: o.Dim, Samples: o.Samples}
	err = r.run(dir, m, shard.Question{Question: described, Round: 1, Clients: o.Clients, Encoder: "none",
		ID: "benchmark"})
	return r, errors.Join(err, os.RemoveAll(dir))
}

func (r *ShardsResult) run(dir string, m query.Mergeable, q shard.Question) error {
	keyFile := filepath.Join(dir, "key")
	if err := sealing.GenerateKey(keyFile); err != nil {
		return err
	}
	public, err := sealing.ReadPublicKey(keyFile + sealing.PublicSuffix)
	if err != nil {
		return err
	}
	private, err := sealing.ReadPrivateKey(keyFile)
	if err != nil {
		return err
	}
	var parts []string
	for i := range r.Shards {
		var members shard.Members
		sum, seconds, err := r.sum(m, i, r.Shards, &members)
		if err != nil {
			return err
		}
		r.Score += seconds
		parts = append(parts, filepath.Join(dir, fmt.Sprint(i)))
		if err := shard.Seal(parts[i], public, q, shard.Place{Shard: i + 1, Of: r.Shards, Assignment: shard.ByFile},
			members, sum); err != nil {
			return err
		}
	}
	info, err := os.Stat(parts[0])
	if err != nil {
		return err
	}
	r.PartBytes = info.Size()
	begun := time.Now()
	merged, err := shard.Merge(private, q, parts)
	if err != nil {
		return err
	}
	sum, err := m.Finish(merged)
	if err != nil {
		return err
	}
	r.Merge = time.Since(begun).Seconds()
	whole, seconds, err := r.sum(m, 0, 1, nil)
	if err != nil {
		return err
	}
	r.Whole = seconds
	want, err := m.Finish(whole)
	if err != nil {
		return err
	}
	r.BitForBit = slices.Equal(sum, want)
	r.PerMillion = r.Score / float64(r.Clients) * 1e6
	r.HoursBillion = r.PerMillion * 1000 / 3600
	r.Peak = memory.Peak()
	return nil
}

// sum adds up every n-th batch of the made-up clients, from the given one on.
func (r *ShardsResult) sum(m query.Mergeable, from, n int, members *shard.Members) (total query.Partial,
	seconds float64, err error) {
	const batch = 8192
	data := make([]float64, min(batch, r.Clients)*r.Dim)
	if total, err = m.Partial(query.Clients{Means: query.Means{Dim: r.Dim}}); err != nil {
		return total, 0, err
	}
	for b := from; b*batch < r.Clients; b += n {
		begun := time.Now()
		rows := min(batch, r.Clients-b*batch)
		random := rng.New(uint64(b), "benchmark", "clients")
		for i := range rows * r.Dim {
			data[i] = float64(int64(random.Uint64())) / (1 << 64) // uniform; its length is no matter
		}
		if members != nil {
			for i := range rows {
				members.Add(fmt.Sprint(b*batch + i))
			}
		}
		made := time.Now()
		r.Make += made.Sub(begun).Seconds()
		p, err := m.Partial(query.Clients{Means: query.Means{Clients: rows, Dim: r.Dim, Data: data[:rows*r.Dim]}})
		if err == nil {
			err = total.Merge(p)
		}
		if err != nil {
			return total, 0, err
		}
		seconds += time.Since(made).Seconds()
	}
	return total, seconds, nil
}
