package scoring

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"popri/scoring/query"
)

// Joint asks for two parts of a client's mean at once: the mean embedding m, less its centre μ, and the weighted frequencies w of
// words behind it (package model/embedding/words). Each part is scaled to a share of the norm bound C:
//
//	v = [ √(1−s)·C·(m − μ)/‖m − μ‖,  √s·C·w/‖w‖,  0 … 0 ]      ‖v‖ ≤ C
//
// One norm bound holds for all of it, so there is one charge as for [Mean]. The zeros at the end are check values.
type Joint struct {
	mean, words Mean
	options     JointOptions
	key         string
}

// JointOptions say how a client's mean becomes a vector of bounded norm.
type JointOptions struct {
	Centre []float64 // μ; nil is zero
	Words  int       // number of words; 1 or more
	Share  float64   // s, that of the squared norm bound which the words get; above 0 and below 1
	Bound  float64   // C, the L2 norm; above 0
	Checks int       // as in [MeanOptions]
}

// NewJoint makes the question for mean embeddings of dim values; key identifies the encoder, the words and the centre.
func NewJoint(dim int, o JointOptions, key string) (Joint, error) {
	if err := o.validate(); err != nil {
		return Joint{}, err
	}
	mean, err := NewMean(dim, MeanOptions{Centre: o.Centre, Full: true, Bound: o.Bound * math.Sqrt(1-o.Share)}, key)
	if err != nil {
		return Joint{}, err
	}
	words, err := NewMean(o.Words, MeanOptions{Full: true, Bound: o.Bound * math.Sqrt(o.Share)}, key)
	return Joint{mean, words, o, key}, err
}

// mostWords keeps a request whose name somebody made up from taking all memory.
const mostWords = 1 << 20

func (o JointOptions) validate() error {
	switch {
	case o.Words < 1 || o.Words > mostWords:
		return fmt.Errorf("scoring: a joint mean with %d words, want 1 to %d", o.Words, mostWords)
	case !(o.Share > 0 && o.Share < 1):
		return fmt.Errorf("scoring: the words' share of the squared norm bound is %g, want more than 0 and less than 1", o.Share)
	case o.Checks < 0:
		return fmt.Errorf("scoring: a joint mean with %d check values", o.Checks)
	}
	return nil
}

// JointName is the name of the question with these options: "mean/full/words/8192/0.5+1024" with 8192 words that have the share
// 0.5 of the squared norm bound, and 1024 check values.
func JointName(o JointOptions) string {
	return CheckedName(wordsPrefix+strconv.Itoa(o.Words)+"/"+strconv.FormatFloat(o.Share, 'g', -1, 64), o.Checks)
}

const wordsPrefix = FullMeanName + "/words/"

// parseJoint is the inverse of JointName.
func parseJoint(name string) (o JointOptions, ok bool) {
	kind, checks := cutChecks(name)
	o.Checks = checks
	rest, _ := strings.CutPrefix(kind, wordsPrefix)
	words, share, _ := strings.Cut(rest, "/")
	o.Words, _ = strconv.Atoi(words)
	o.Share, _ = strconv.ParseFloat(share, 64)
	return o, o.validate() == nil && JointName(o) == name
}

// NameFor is the name of the question like the named one for vectors of dim values, of which words are half at most: an audit plays
// its game with few values.
func NameFor(name string, dim int) string {
	o, ok := parseJoint(name)
	if !ok {
		return name
	}
	o.Words = min(o.Words, dim/2)
	return JointName(o)
}

// Name implements query.Query.
func (q Joint) Name() string { return JointName(q.options) }

// Key implements query.Query.
func (q Joint) Key() string { return q.key }

// Len implements query.Query.
func (q Joint) Len() int { return q.mean.dim + q.words.dim + q.options.Checks }

// Bound implements query.Query.
func (q Joint) Bound() float64 { return q.options.Bound }

// NeedsTexts implements query.Query.
func (q Joint) NeedsTexts() bool { return false }

// Vector implements query.Query.
func (q Joint) Vector(clients query.Clients, i int) ([]float64, error) {
	at := q.mean.dim
	if clients.Dim != at+q.words.dim {
		return nil, fmt.Errorf("scoring: clients' embeddings have %d dimensions, the question %d and %d words", clients.Dim, at, q.words.dim)
	}
	v, row := make([]float64, q.Len()), clients.Row(i)
	if err := q.mean.answer(v[:at], row[:at], i); err != nil {
		return nil, err
	}
	if err := q.words.answer(v[at:clients.Dim], row[at:], i); err != nil {
		return nil, err
	}
	Clip(v, q.options.Bound) // what rounding added
	return v, nil
}

// Sum implements query.Query.
func (q Joint) Sum(clients query.Clients) ([]float64, error) { return sumOf(q, clients) }

// Partial implements query.Mergeable.
func (q Joint) Partial(clients query.Clients) (query.Partial, error) { return partialOf(q, clients) }

// Finish implements query.Mergeable.
func (q Joint) Finish(p query.Partial) ([]float64, error) { return finished(q, p) }
