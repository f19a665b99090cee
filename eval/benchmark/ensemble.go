package benchmark

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/scoring/ensemble"
)

// EnsembleOptions are the sizes of a comparison of coordinated and independent votes.
type EnsembleOptions struct {
	Model      string       // folder; "" makes up teachers with a share Alpha of their distribution in common
	DType      tensor.DType // of weights and products
	Alpha      float64
	Teachers   int       // n: prompts, or made-up teachers
	Common     int       // k: numbers that all prompts list; tokens of the common part of made-up teachers
	Histograms int       // r, of each kind
	Thresholds []float64 // shares of the teachers
	Seed       uint64
	Progress   func(done, total int) // may be nil
}

// Ensemble is what thresholds let through of the votes of both kinds, without noise.
type Ensemble struct {
	Stage      string  `json:"stage"`
	Model      string  `json:"model,omitempty"`
	Teachers   int     `json:"teachers"`
	Common     int     `json:"common"`
	Histograms int     `json:"histograms"`
	Seconds    float64 `json:"seconds"`
	// Numbers is the mean probability of the three-digit numbers, and Listed and Private those of the common ones and
	// of the prompt's own: shares of the number's likelihood, token by token. Largest is the largest mean probability
	// of one of them.
	Numbers float64 `json:"numbers"`
	Listed  float64 `json:"listed"`
	Private float64 `json:"private"`
	Largest float64 `json:"largest"`
	// Majority is how often more than half of the teachers agree, and Limit what the formula of made-up teachers says
	// of coordinated votes.
	Majority Pair    `json:"majority"`
	Limit    float64 `json:"limit,omitempty"`
	Rows     []Row   `json:"rows"`
}

// Pair is a figure of both kinds of votes.
type Pair struct {
	Coordinated float64 `json:"coordinated"`
	Independent float64 `json:"independent"`
}

// Row is what a threshold lets through.
type Row struct {
	Threshold   int             `json:"threshold"`
	Coordinated ensemble.Passed `json:"coordinated"`
	Independent ensemble.Passed `json:"independent"`
	Robust      float64         `json:"robust"` // mass that so many teachers have in common
}

// CompareVotes is the demonstration of Hot PATE (Cohen et al. 2025, section 5) with any model: each prompt lists the
// same numbers of three digits in an order of its own, and one number of its own, and the teachers vote for a number. A
// number that has several tokens counts by the likelihood of all of them. Where the paper has 10⁴ prompts to Llama 3
// (8B), thresholds are shares of the prompts here.
func CompareVotes(ctx context.Context, o EnsembleOptions) (*Ensemble, error) {
	if o.Teachers < 2 || o.Common < 1 || o.Histograms < 1 || o.Common > 800 ||
		o.Model == "" && !(o.Alpha > 0 && o.Alpha < 1) {
		return nil, fault.Userf("%d teachers, %d common numbers, %d histograms, a common share of %g: want 2 or more, "+
			"1 to 800, 1 or more, and above 0 and below 1", o.Teachers, o.Common, o.Histograms, o.Alpha)
	}
	for _, t := range o.Thresholds {
		if !(t > 0 && t <= 1) {
			return nil, fault.Userf("a threshold is %g of the teachers, want above 0 and at most 1", t)
		}
	}
	begun := time.Now()
	out := &Ensemble{Stage: "ensemble", Model: o.Model, Teachers: o.Teachers, Common: o.Common,
		Histograms: o.Histograms}
	var p [][]float64
	var never []int32
	if o.Model == "" {
		p, out.Limit = o.madeUp(), ensemble.Majority(o.Alpha)
	} else {
		prompts := o.prompts()
		var err error
		if p, err = o.ask(ctx, prompts); err != nil {
			return nil, err
		}
		never = []int32{last - first + 1}
		out.describe(p, prompts)
	}
	hot, cold := o.vote(p, never)
	// What stands for no answer is no part of what can be transferred.
	for i := range p {
		p[i] = p[i][:len(p[i])-len(never)]
	}
	mean, mass := means(p), 0.0
	for _, x := range mean {
		out.Largest, mass = math.Max(out.Largest, x), mass+x
	}
	for j := range mean {
		mean[j] /= mass
	}
	for _, t := range o.Thresholds {
		least := max(1, int(math.Round(t*float64(o.Teachers))))
		out.Rows = append(out.Rows, Row{least, hot.At(least, mean), cold.At(least, mean), ensemble.Robust(p, least)})
	}
	out.Majority = Pair{hot.Most(o.Teachers / 2), cold.Most(o.Teachers / 2)}
	out.Seconds = time.Since(begun).Seconds()
	return out, nil
}

// The numbers of three digits.
const first, last = 100, 999

// madeUp are teachers with the share Alpha in common, uniform over Common tokens, and the rest on one token of each.
func (o EnsembleOptions) madeUp() [][]float64 {
	out := make([][]float64, o.Teachers)
	for i := range out {
		out[i] = make([]float64, o.Common+o.Teachers)
		for j := range o.Common {
			out[i][j] = o.Alpha / float64(o.Common)
		}
		out[i][o.Common+i] = 1 - o.Alpha
	}
	return out
}

// numbers is a prompt with what it lists.
type numbers struct {
	text   string
	listed []int
	own    int
}

var eaters = []string{"Ada", "Boris", "Chen", "Dana", "Emeka", "Farid", "Greta", "Hana", "Ivo", "Jun", "Kofi", "Lena",
	"Milo", "Nora", "Omar", "Pia", "Quinn", "Rosa", "Sami", "Tove", "Uma", "Vera", "Wim", "Xenia", "Yusuf", "Zoe"}

func (o EnsembleOptions) prompts() []numbers {
	random := rng.New(o.Seed, "bench", "ensemble", "prompts")
	common := random.Perm(last - first + 1)
	listed, rest := common[:o.Common], common[o.Common:]
	out := make([]numbers, o.Teachers)
	for i := range out {
		p := &out[i]
		p.own = rest[random.IntN(len(rest))]
		p.listed = listed
		all := append(slices.Clone(listed), p.own)
		random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		var words []string
		for _, n := range all {
			words = append(words, strconv.Itoa(first+n))
		}
		p.text = fmt.Sprintf("Some numbers are food on planet Z. This is what %s from planet Z ate this morning: %s. "+
			"An example of a number that one can eat on planet Z is the number", eaters[random.IntN(len(eaters))],
			strings.Join(words, ", "))
	}
	return out
}

// branch is a token of numbers' spellings; leaf is the number that ends with it, or −1.
type branch struct {
	next map[int32]*branch
	leaf int
}

// spelled is the tree of the tokens of all numbers, with a space before them.
func spelled(tok *tokenizer.Tokenizer) (root *branch, depth int) {
	root = &branch{map[int32]*branch{}, -1}
	for n := first; n <= last; n++ {
		at, ids := root, tok.Encode(" "+strconv.Itoa(n))
		for _, id := range ids {
			if at.next[id] == nil {
				at.next[id] = &branch{map[int32]*branch{}, -1}
			}
			at = at.next[id]
		}
		at.leaf, depth = n-first, max(depth, len(ids))
	}
	return root, depth
}

func (b *branch) inner() int {
	if len(b.next) == 0 {
		return 0
	}
	n := 1
	for _, x := range b.next {
		n += x.inner()
	}
	return n
}

// ask returns each prompt's distribution over the numbers, and over everything else as the last value.
func (o EnsembleOptions) ask(ctx context.Context, prompts []numbers) ([][]float64, error) {
	tok, err := tokenizer.Load(o.Model)
	if err != nil {
		return nil, fault.User(err)
	}
	m, err := lm.Load(o.Model, lm.Options{Weights: o.DType, Compute: o.DType, Sampling: true})
	if err != nil {
		return nil, fault.User(err)
	}
	defer m.Free()
	root, depth := spelled(tok)
	ids := make([][]int32, len(prompts))
	prefix, _ := tok.Template()
	for i, p := range prompts {
		ids[i] = append(slices.Clone(prefix), tok.Encode(p.text)...)
	}
	l, err := m.NewLockstep(ids, lm.LockstepOptions{Room: depth})
	if err != nil {
		return nil, fault.User(err)
	}
	defer l.Free()
	out, whole := make([][]float64, len(prompts)), make([]float64, len(prompts))
	for i := range out {
		out[i] = make([]float64, last-first+2)
	}
	done, total := 0, root.inner()
	var walk func(at *branch, tokens []int32, before []float64) error
	walk = func(at *branch, tokens []int32, before []float64) error {
		after := map[int32][]float64{}
		for id := range at.next {
			after[id] = make([]float64, len(prompts))
		}
		err := l.Step(ctx, tokens, func(i int, logits []float32) error {
			sum := logSum(logits)
			for id := range at.next {
				after[id][i] = before[i] + float64(logits[id]) - sum
			}
			return nil
		})
		if err != nil {
			return err
		}
		if done++; o.Progress != nil {
			o.Progress(done, total)
		}
		for _, id := range slices.Sorted(maps.Keys(at.next)) {
			next := at.next[id]
			if next.leaf >= 0 {
				for i, x := range after[id] {
					out[i][next.leaf] = math.Exp(x)
				}
			}
			if len(next.next) > 0 {
				if err := walk(next, append(slices.Clone(tokens), id), after[id]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(root, nil, whole); err != nil {
		return nil, err
	}
	for _, p := range out {
		rest := 1.0
		for _, x := range p[:len(p)-1] {
			rest -= x
		}
		p[len(p)-1] = math.Max(0, rest)
	}
	return out, nil
}

func logSum(x []float32) float64 {
	most, sum := float64(slices.Max(x)), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	return most + math.Log(sum)
}

// describe sets the model's facts.
func (e *Ensemble) describe(p [][]float64, prompts []numbers) {
	n := float64(len(p))
	for i, x := range p {
		e.Numbers += (1 - x[len(x)-1]) / n
		for _, j := range prompts[i].listed {
			e.Listed += x[j] / n
		}
		e.Private += x[prompts[i].own] / n
	}
}

func means(p [][]float64) []float64 {
	out := make([]float64, len(p[0]))
	for _, x := range p {
		for j, v := range x {
			out[j] += v / float64(len(p))
		}
	}
	return out
}

// vote draws the histograms of both kinds.
func (o EnsembleOptions) vote(p [][]float64, never []int32) (hot, cold *ensemble.Histograms) {
	hot = &ensemble.Histograms{Teachers: len(p), Never: never}
	cold = &ensemble.Histograms{Teachers: len(p), Never: never}
	logits := make([][]float32, len(p))
	for i, x := range p {
		logits[i] = make([]float32, len(x))
		for j, v := range x {
			logits[i][j] = float32(math.Log(v))
		}
	}
	for h := range o.Histograms {
		random := rng.New(o.Seed, "bench", "ensemble", "votes", strconv.Itoa(h))
		shared := ensemble.Shared(len(p[0]), nil, random)
		a, b := make([]int32, len(p)), make([]int32, len(p))
		for i := range p {
			a[i], b[i] = ensemble.Vote(logits[i], 1, shared), ensemble.Draw(logits[i], 1, nil, random.Float64())
		}
		hot.Add(a)
		cold.Add(b)
	}
	return hot, cold
}
