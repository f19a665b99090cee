// Package release is the protocol between a method and the clients: a request with a query, and the noised sum that is
// the answer, in memory and on disk. It holds no client's data and reaches none.
package release

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/internal/numeric"
	"popri/scoring/query"
)

// The files of a release, in the round's folder.
const (
	File        = "release.bin"
	PendingFile = "release.pending" // drawn, and not yet known to be charged
)

// Files are the names of a release's files: those above, or with the number of a part of the round
// ("release-00001.bin").
func Files(part int) (file, pending string) {
	if part == 0 {
		return File, PendingFile
	}
	return fmt.Sprintf("release-%05d.bin", part), fmt.Sprintf("release-%05d.pending", part)
}

// PartOf is the part in a file's name, 0 for the release of a whole round. ok is false if it is no release's name.
func PartOf(name string) (part int, pending, ok bool) {
	if _, err := fmt.Sscanf(name, "release-%d.", &part); err != nil {
		part = 0
	}
	file, drawn := Files(part)
	return part, name == drawn, part >= 0 && (name == file || name == drawn)
}

// ErrOtherSamples marks a release that was made and charged for another question than the call's.
var ErrOtherSamples = errors.New("the release is for other samples")

// ErrOtherSettings marks a release with other settings than the call's; it is also [ErrOtherSamples].
var ErrOtherSettings error = otherSettings{}

type otherSettings struct{}

func (otherSettings) Error() string        { return "the release was made with other settings" }
func (otherSettings) Is(target error) bool { return target == ErrOtherSamples }

// Request is the question to the clients in one round.
type Request struct {
	Round int // from 1
	Part  int // from 1, of a round that has several releases; 0 of one that has one
	Query query.Question
	// Dir is the round's folder, which must exist.
	Dir string
	// Progress, if not nil, is told how many of all clients have answered, from several goroutines at once.
	Progress func(done, total int)
}

// Collector asks the clients. Called again for a round that is on disk, it returns the same release and charges
// nothing. Errors: ledger.ErrBudget where the budget does not cover the round (nothing was released),
// [ledger.ErrUncharged], [ErrOtherSamples], [ErrOtherSettings], and failures of the disk.
type Collector interface {
	Collect(Request) (*Release, error)
}

// Release is what leaves the clients. It is public.
type Release struct {
	Round       int             `json:"round"`
	Part        int             `json:"part,omitempty"`        // of the round, from 1; 0 where a round has one release
	Sum         []float64       `json:"-"`                     // n values: clipped vectors added up, noise included, each a multiple of Step unless Narrow
	Chosen      bool            `json:"chosen,omitempty"`      // Sum is no sum, but what was chosen by one that nobody saw
	Key         string          `json:"key"`                   // of the query
	Step        float64         `json:"step"`                  // of the grid; 0 without noise
	Sampling    ledger.Sampling `json:"sampling"`              // of the clients
	Cohort      int             `json:"cohort"`                // number of asked clients; expected number under Poisson sampling
	Clients     int             `json:"clients"`               // that answered; under Poisson sampling, where it is secret, the number expected
	Planned     float64         `json:"planned_sigma"`         // noise multiplier if all answer
	Sigma       float64         `json:"sigma"`                 // noise multiplier of the noise that is in Sum
	Query       string          `json:"query"`                 // its name
	Bound       float64         `json:"norm_bound"`            // of a client's vector
	Sensitivity float64         `json:"sensitivity"`           // by how much a client moves Sum at most: the norm bound, with rounding
	Tree        int             `json:"tree,omitempty"`        // under ledger.Tree: the position of the node whose sum Sum is, as in the ledger
	Leaf        int             `json:"leaf,omitempty"`        // the node's last leaf
	Leaves      int             `json:"leaves,omitempty"`      // of the tree
	Order       string          `json:"order,omitempty"`       // of the clients, as in the ledger
	Narrow      bool            `json:"float32,omitempty"`     // Sum is rounded to float32 after the noise, and stored so
	Picks       int             `json:"picks,omitempty"`       // above 0: the most indices of largest counts that Sum has, highest noised one first
	Slack       float64         `json:"slack,omitempty"`       // of a selection: its δ0, as in the ledger
	Noises      int             `json:"noises,omitempty"`      // 2: each of two aggregators added the noise, and one is charged; else 0
	Seeded      bool            `json:"insecure_seeded_noise"` // the noise is no secret: nothing is protected
	Hash        string          `json:"-"`                     // hex SHA-256 of the release's file, as the ledger has it
	Resumed     bool            `json:"-"`                     // taken from disk: charged by an earlier call
}

// NoiseStd is the standard deviation of the noise in each value of Sum.
func (r *Release) NoiseStd() float64 {
	return r.Sigma * r.Sensitivity * math.Sqrt(float64(max(1, r.Noises)))
}

// Mean is the released sum over the clients who answered.
func (r *Release) Mean() []float64 {
	return numeric.Map(r.Sum, func(v float64) float64 { return v / float64(r.Clients) })
}

// Charge is what the release costs, in a population with this number of clients.
func (r *Release) Charge(clients int) ledger.Entry {
	e := ledger.Entry{Round: r.Round, Part: r.Part, Chosen: r.Chosen, Query: r.Query, Sigma: r.Sigma,
		Sensitivity: r.Sensitivity, Sampling: r.Sampling, Cohort: r.Cohort, Clients: r.Clients, ReleaseHash: r.Hash,
		Picks: r.Picks, Slack: r.Slack, Tree: r.Tree, Leaf: r.Leaf, Leaves: r.Leaves, Order: r.Order}
	if r.Sampling == ledger.Poisson {
		e.SamplingRate = float64(r.Cohort) / float64(clients)
	}
	if r.Picks > 0 {
		e.Mechanism = accountant.Gumbel
	}
	return e
}

// header is the first line of a release's file; the values of the sum follow as little-endian float64, or float32 if
// Narrow.
type header struct {
	Format string `json:"format"`
	Round  int    `json:"round"` // stands before Values
	Values int    `json:"values"`
	Release
}

const format = "popri release 3"

// ErrMalformed marks a file that is not a release.
var ErrMalformed = errors.New("not a release file")

// Encode returns the content of the release's file.
func (r *Release) Encode() []byte {
	line, err := json.Marshal(header{format, r.Round, len(r.Sum), *r})
	if err != nil {
		panic(fmt.Sprintf("release: header of validated numbers: %v", err)) // a bug
	}
	out := append(line, '\n')
	for _, v := range r.Sum {
		if r.Narrow {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
			continue
		}
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}

// Read reads a release file. It does not look at the ledger. Content that is not a release gives [ErrMalformed].
func Read(path string) (*Release, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	r, err := Decode(content)
	if err != nil {
		return nil, fmt.Errorf("release: %s: %w", path, err)
	}
	return r, nil
}

// Decode reads the content of a release's file. Content that is not a release gives [ErrMalformed].
func Decode(content []byte) (*Release, error) {
	line, data, ok := bytes.Cut(content, []byte("\n"))
	var h header
	if !ok || json.Unmarshal(line, &h) != nil || h.Format != format {
		return nil, fmt.Errorf("%w: it does not start with the header of %q", ErrMalformed, format)
	}
	width := 8
	if h.Narrow {
		width = 4
	}
	if h.Values < 0 || len(data)%width != 0 || len(data)/width != h.Values {
		return nil, fmt.Errorf("%w: %d bytes hold no %d values", ErrMalformed, len(data), h.Values)
	}
	r := &h.Release
	r.Round, r.Sum, r.Hash = h.Round, make([]float64, h.Values), ledger.ContentHash(content)
	for i := range r.Sum {
		var v float64
		if h.Narrow {
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		} else {
			v = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		if !numeric.Finite(v) {
			return nil, fmt.Errorf("%w: value %d is %g", ErrMalformed, i, v)
		}
		r.Sum[i] = v
	}
	return r, nil
}

// made lists the settings of a release, without the outcome of chance: names and values, always the same names.
type made []struct {
	name  string
	value any
}

func (r *Release) asked() made {
	return made{{"round", r.Round}, {"part", r.Part}, {"choice", r.Chosen}, {"number of picks", r.Picks},
		{"slack", r.Slack}, {"cohort", r.Cohort}, {"sampling", r.Sampling}, {"noise multiplier", r.Planned},
		{"query", r.Query}, {"norm bound", r.Bound}, {"tree", r.Tree}, {"leaf", r.Leaf}, {"number of leaves", r.Leaves},
		{"order of the clients", r.Order}, {"rounding to float32", r.Narrow}, {"step of the grid", r.Step},
		{"sensitivity", r.Sensitivity}, {"number of noises", r.Noises}, {"insecure seeded noise", r.Seeded}}
}

// Differs says in words how the settings of a request differ from an earlier release's.
func (r *Release) Differs(earlier *Release) []string { return r.asked().differs(earlier.asked()) }

// differs says in words which values differ.
func (m made) differs(was made) []string {
	var out []string
	for i, is := range m {
		if is.value != was[i].value {
			out = append(out, fmt.Sprintf("%s is %v, was %v", is.name, is.value, was[i].value))
		}
	}
	return out
}
