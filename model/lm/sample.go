package lm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/tensor"
)

// SampleOptions say how text is drawn. The zero value is greedy decoding of one token; see the fields.
type SampleOptions struct {
	Temperature  float64 // softmax temperature; 0 is greedy
	TopP         float64 // keep the likeliest tokens whose probability reaches this; 0 or 1 keeps all
	TopK         int     // keep this many likeliest tokens; 0 keeps all
	MaxNewTokens int     // most tokens of a sample; 0 means 1
	MinNewTokens int     // number of tokens before which no stop token is drawn
	StopTokens   []int32 // tokens that end a sample besides the model's end of text; they are not part of it
	HeldTokens   []int32 // further tokens that are not drawn before MinNewTokens, since what they begin would end a sample
	IgnoreEOS    bool    // do not end at the model's end of text
	// Stop, where not nil, is asked after each token whether a prompt's sample is complete. It must be a pure function.
	Stop func(prompt, ids []int32) bool
	// Seed and the indices of prompt and sample determine the random numbers of a sample, whatever the batch is. In
	// float32, and in bfloat16 if the CPU has a matrix unit, the samples are the same for every batch, cache and number
	// of threads. In bfloat16 elsewhere they are the same for every number of threads; another batch may round a
	// prompt's keys differently, which can decide a near tie differently. On a GPU this also holds for float32.
	Seed uint64
	// CacheBytes bounds the memory of the samples' own keys and values; 0 means 1 GiB, 2 GiB where they are
	// float32, and a quarter of a GPU's memory. The batch size follows from it.
	CacheBytes int64
	// Progress, where not nil, is told how many samples are finished, from several goroutines.
	Progress func(done, total int)
}

// Sample is one drawn continuation.
type Sample struct {
	IDs    []int32 // the tokens drawn, without the stop token
	Finish string  // "stop" or "length"
}

// Generate draws J samples for each prompt; the result is [prompt][sample]. The J samples share the keys and values of
// their prompt, and a sample that ends makes room for the next one. Prompts must not be empty and must leave room for
// MaxNewTokens in the context.
func (m *Model) Generate(ctx context.Context, prompts [][]int32, samples int, o SampleOptions) ([][]Sample, error) {
	if !m.canSample() {
		return nil, fmt.Errorf("lm: a model of type %s does not write text; it is for downstream.model", m.Config.Type)
	}
	o.MaxNewTokens = max(1, o.MaxNewTokens)
	if err := m.checkPrompts(prompts, o.MaxNewTokens); err != nil {
		return nil, err
	}
	if o.Temperature < 0 || math.IsNaN(o.Temperature) || o.TopP < 0 || o.TopP > 1 || o.TopK < 0 || samples < 1 {
		return nil, fmt.Errorf("lm: temperature %g, top_p %g, top_k %d, %d samples: out of range", o.Temperature,
			o.TopP, o.TopK, samples)
	}
	if len(prompts) == 0 {
		return nil, nil
	}
	if err := m.packToDraw(); err != nil {
		return nil, err
	}
	stop := o.Stops(m.Config)
	out := numeric.Tabulate(len(prompts), func(int) []Sample { return make([]Sample, samples) })
	// Prompts of similar length go together, so that prefill pads little. The division into tasks depends on the work
	// alone.
	order := numeric.SortedIndices(len(prompts), func(a, b int) int { return len(prompts[b]) - len(prompts[a]) })
	// An even number of equal tasks keeps two threads busy until the end.
	tasks := min(len(order), 2*((len(order)*samples+2*taskSequences-1)/(2*taskSequences)))
	if tensor.GPUMemory() > 0 {
		tasks = 1
	}
	var done atomic.Int64
	err := tensor.Parallel(tasks, func(i int, s *tensor.Scope) error {
		g := &generation{m: m, o: o, prompts: prompts, samples: samples, stop: stop, out: out,
			order: order[i*len(order)/tasks : (i+1)*len(order)/tasks], done: &done}
		return g.run(ctx, s)
	})
	if err != nil {
		return nil, err // the result is incomplete
	}
	return out, nil
}

const (
	defaultCacheValues = 1 << 29 // numbers, of either type
	prefillTokens      = 4096    // padded tokens of one prefill batch
	maxSlots           = 512
	// Most samples that one task draws, about: enough rows for fast products, few enough for every thread to get some.
	taskSequences = 320
)

// generation is the state of one call of Generate.
type generation struct {
	m       *Model
	o       SampleOptions
	prompts [][]int32
	samples int
	stop    map[int32]bool
	out     [][]Sample
	order   []int         // the prompts of this task, longest first
	left    int           // samples of this task that are not finished
	done    *atomic.Int64 // samples finished in all tasks

	draws  tensor.Sampler
	layers []*tensor.DecodeCache
	next   int // index in order of the next prompt to prefill
	ready  []*prefix
	free   []int32 // free prefixes of the caches
	slots  []int32 // free slots
	live   []*sequence
}

// prefix is a prompt whose keys and values are in the cache.
type prefix struct {
	prompt  int
	index   int32         // in the caches
	logits  tensor.Tensor // [1, V], after the prompt's last token, kept until all samples have begun
	started int           // samples begun
	ended   int
}

type sequence struct {
	of   *prefix
	j    int
	slot int32
	seed uint64
	ids  []int32
}

func (g *generation) run(ctx context.Context, s *tensor.Scope) error {
	g.draws = tensor.Sampler{Temperature: g.o.Temperature, TopK: g.o.TopK, TopP: g.o.TopP,
		Banned: slices.Concat(slices.Collect(maps.Keys(g.stop)), g.o.HeldTokens)}
	defer func() {
		for _, p := range g.ready {
			p.logits.Free()
		}
	}()
	longest := len(g.prompts[g.order[0]])
	shape := g.m.cacheShape(longest, g.o.MaxNewTokens)
	g.left = len(g.order) * g.samples
	budget, most, prefill := g.o.CacheBytes, int64(maxSlots), prefillTokens
	if memory := tensor.GPUMemory(); memory > 0 { // there is one task, and few rows leave a GPU idle
		budget, most, prefill = cmp.Or(budget, memory/4), 8*most, 4*prefill
	} else {
		budget = cmp.Or(budget, defaultCacheValues*int64(shape.DType.Size()))
		budget /= int64(tensor.Threads()) // each thread's task holds a cache
	}
	slots := int(max(1, min(budget/g.m.slotBytes(shape), most, int64(g.left))))
	perBatch := max(1, prefill/longest)
	prefixes := min(len(g.order), (slots+g.samples-1)/g.samples+1+perBatch)
	for range g.m.Config.Layers {
		g.layers = append(g.layers, newCache(s, shape, prefixes, slots))
	}
	for i := prefixes - 1; i >= 0; i-- {
		g.free = append(g.free, int32(i))
	}
	for i := slots - 1; i >= 0; i-- {
		g.slots = append(g.slots, int32(i))
	}
	for g.left > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := g.admit(s, perBatch); err != nil {
			return err
		}
		if len(g.live) == 0 {
			continue
		}
		var err error
		s.Do(func() { err = g.step(s) })
		if err != nil {
			return err
		}
	}
	return nil
}

// admit fills the free slots with samples that have not begun, and prefills prompts as they are needed. A sample's
// first token comes from its prompt's logits.
func (g *generation) admit(s *tensor.Scope, perBatch int) error {
	for len(g.slots) > 0 {
		if len(g.ready) == 0 {
			if g.next == len(g.order) || len(g.free) == 0 {
				return nil
			}
			n := min(perBatch, len(g.free), len(g.order)-g.next)
			s.Do(func() { g.prefill(s, g.order[g.next:g.next+n]) })
			g.next += n
		}
		p := g.ready[0]
		var begun []*sequence
		for p.started < g.samples && len(g.slots) > len(begun) {
			q := &sequence{of: p, j: p.started, slot: g.slots[len(g.slots)-1-len(begun)]}
			q.seed = rng.Seed(g.o.Seed, strconv.Itoa(p.prompt), strconv.Itoa(q.j))
			begun = append(begun, q)
			p.started++
		}
		g.slots = g.slots[:len(g.slots)-len(begun)]
		n := int64(len(begun))
		var err error
		s.Do(func() {
			logits := s.IndexSelect(p.logits, 0, s.FromInt64(make([]int64, n), n))
			err = g.draw(begun, func(u []float64, ban []bool) []int32 { return g.draws.Draw(s, logits, u, ban) })
		})
		if p.started == g.samples {
			p.logits.Free()
			g.ready = g.ready[1:]
		}
		if err != nil {
			return err
		}
		for _, q := range begun {
			if q != nil && q.of != nil {
				g.live = append(g.live, q)
			}
		}
	}
	return nil
}

func (g *generation) prefill(s *tensor.Scope, which []int) {
	prompts, prefixes := make([][]int32, len(which)), make([]int32, len(which))
	for i, p := range which {
		prompts[i], prefixes[i] = g.prompts[p], g.free[len(g.free)-1-i]
	}
	in := PaddedInput(s, prompts, g.m.Config.Context)
	logits := g.m.Logits(s, g.m.prefill(s, g.layers, in, prefixes, prompts))
	for i, p := range which {
		g.ready = append(g.ready, &prefix{prompt: p, index: prefixes[i], logits: s.Keep(s.Narrow(logits, 0, int64(i), 1))})
	}
	g.free = g.free[:len(g.free)-len(which)]
}

// Stops are the tokens that end a sample of a model.
func (o SampleOptions) Stops(c Config) map[int32]bool {
	if o.IgnoreEOS {
		return numeric.Set(o.StopTokens)
	}
	return numeric.Set(slices.Concat(o.StopTokens, c.EOS))
}

// packToDraw packs the weights for drawing. Elsewhere a second copy of them gains less than its memory costs.
func (m *Model) packToDraw() error {
	if tensor.MatrixUnit() || tensor.OnDevice() {
		return m.Pack()
	}
	return nil
}

// step feeds the last token of every unfinished sequence and draws the next.
func (g *generation) step(s *tensor.Scope) error {
	n := len(g.live)
	// Rows are rounded up, and the surplus is ignored: the library compiles a kernel for each new size of a product.
	full := n
	if !g.m.packed() && tensor.DefaultDevice() == tensor.CPU {
		full = roundUp(n, 16)
	}
	ids, positions, rows := make([]int64, full), make([]int64, full), newRows(n)
	for i, q := range g.live {
		length := len(g.prompts[q.of.prompt])
		ids[i] = int64(q.ids[len(q.ids)-1])
		positions[i] = int64(length + len(q.ids) - 1)
		rows.Slot[i], rows.SuffixLen[i] = q.slot, int32(len(q.ids)-1)
		rows.Prefix[i], rows.PrefixLen[i] = q.of.index, int32(length)
	}
	hidden := g.m.decodeStep(s, g.layers, ids, positions, rows)
	err := g.draw(g.live, func(u []float64, ban []bool) []int32 { return g.m.draw(s, hidden, &g.draws, u, ban) })
	if err != nil {
		return err
	}
	g.live = slices.DeleteFunc(g.live, func(q *sequence) bool { return q.of == nil })
	return nil
}

// draw gives each sequence its next token, which take draws as [tensor.Sampler.Draw] does. A sequence that ends frees
// its slot and has no prompt any more.
func (g *generation) draw(seqs []*sequence, take func(u []float64, ban []bool) []int32) error {
	u, ban := make([]float64, len(seqs)), make([]bool, len(seqs))
	for i, q := range seqs {
		ban[i] = len(q.ids) < g.o.MinNewTokens
		u[i] = -1
		if g.o.Temperature > 0 {
			u[i] = uniform(q.seed, len(q.ids))
		}
	}
	for i, id := range take(u, ban) {
		q := seqs[i]
		if id < 0 {
			return fmt.Errorf("lm: prompt %d, sample %d, token %d: the model's logits are not finite", q.of.prompt, q.j, len(q.ids))
		}
		if g.stop[id] {
			g.finish(q, "stop")
			continue
		}
		q.ids = append(q.ids, id)
		if g.o.Stop != nil && g.o.Stop(g.prompts[q.of.prompt], q.ids) {
			g.finish(q, "stop")
		} else if len(q.ids) == g.o.MaxNewTokens {
			g.finish(q, "length")
		}
	}
	return nil
}

func (g *generation) finish(q *sequence, why string) {
	g.out[q.of.prompt][q.j] = Sample{IDs: q.ids, Finish: why}
	g.slots = append(g.slots, q.slot)
	q.of.ended++
	if q.of.ended == g.samples {
		g.free = append(g.free, q.of.index)
	}
	q.of = nil
	g.left--
	if done := g.done.Add(1); g.o.Progress != nil {
		g.o.Progress(int(done), len(g.prompts)*g.samples)
	}
}

// uniform is the step-th random number in [0, 1) of a sample: SplitMix64 (Steele, Lea and Flood 2014) as a counter
// hash.
func uniform(seed uint64, step int) float64 {
	z := seed + (uint64(step)+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
