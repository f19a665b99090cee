package lm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// Lockstep gives the next-token distributions of many prompts that are all continued by the same tokens. The keys and
// values of the prompts, and of the tokens so far, are kept as far as memory goes. Free releases them.
type Lockstep struct {
	m       *Model
	prompts [][]int32
	room    int // most tokens that continue the prompts
	width   int // see LockstepOptions
	crews   []*crew
}

// LockstepOptions are the sizes of a [Lockstep].
type LockstepOptions struct {
	Room int // most tokens that continue the prompts
	// CacheBytes bounds the memory of keys and values; 0 means 4 GB. Prompts beyond it are read again for each token.
	// Which these are depends on the prompts and this number alone.
	CacheBytes int64
	// Width, above 0, is the length that all prompts are padded to, and none may be longer. Then no prompt's logits
	// depend on what the others are, not in their last bit: the sizes of all products follow from Width and the number
	// of prompts. With 0, prompts of similar length are computed together, which is faster, and rounding may depend on
	// them.
	Width int
}

const (
	lockstepBytes = 4 << 30
	lockstepRows  = 64 // prompts of a crew
	logitRows     = 16 // of which logits are in memory at once, for each thread
)

// crew is some prompts that are computed together.
type crew struct {
	which []int                 // indices of prompts
	keep  bool                  // keys and values stay in memory
	cache []*tensor.DecodeCache // of each layer; nil before the prompts are read
	start tensor.Tensor         // [n, H] after the prompts
	fed   []int32               // tokens whose keys are in the cache
	last  tensor.Tensor         // [n, H] after these; none if there are none
}

// NewLockstep prepares prompts, which must not be empty and must leave room for the tokens. It computes nothing yet.
func (m *Model) NewLockstep(prompts [][]int32, o LockstepOptions) (*Lockstep, error) {
	if !m.canSample() {
		return nil, fmt.Errorf("lm: a model of type %s does not write text", m.Config.Type)
	}
	if len(prompts) == 0 || o.Room < 1 || o.CacheBytes < 0 || o.Width < 0 || o.Width+o.Room > m.Config.Context {
		return nil, fmt.Errorf("lm: %d prompts of up to %d tokens in lockstep with room for %d more in %d bytes",
			len(prompts), o.Width, o.Room, o.CacheBytes)
	}
	if err := m.checkPrompts(prompts, o.Room); err != nil {
		return nil, err
	}
	for i, p := range prompts {
		if o.Width > 0 && len(p) > o.Width {
			return nil, fmt.Errorf("lm: prompt %d has %d tokens, more than %d", i, len(p), o.Width)
		}
	}
	if err := m.packToDraw(); err != nil {
		return nil, err
	}
	o.CacheBytes = cmp.Or(o.CacheBytes, lockstepBytes)
	l := &Lockstep{m: m, prompts: prompts, room: o.Room, width: o.Width}
	order := numeric.Indices(len(prompts))
	if o.Width == 0 { // prompts of similar length go together, so that reading them pads little
		order = numeric.SortedIndices(len(prompts), func(a, b int) int { return len(prompts[b]) - len(prompts[a]) })
	}
	for from := 0; from < len(order); from += lockstepRows {
		p := &crew{which: order[from:min(from+lockstepRows, len(order))]}
		shape := m.cacheShape(max(o.Width, len(prompts[p.which[0]])), o.Room)
		bytes := int64(len(p.which)) * m.slotBytes(shape) / int64(shape.SuffixRoom) * int64(shape.SuffixRoom+shape.PrefixRoom)
		if p.keep = bytes <= o.CacheBytes; p.keep {
			o.CacheBytes -= bytes
		}
		l.crews = append(l.crews, p)
	}
	return l, nil
}

// Free releases the memory of keys and values. The next Step reads the prompts again.
func (l *Lockstep) Free() {
	for _, p := range l.crews {
		for _, c := range p.cache {
			for _, t := range []tensor.Tensor{c.PrefixK, c.PrefixV, c.SuffixK, c.SuffixV} {
				t.Free()
			}
		}
		p.start.Free()
		p.last.Free()
		*p = crew{which: p.which, keep: p.keep}
	}
}

// Step gives use the float32 logits [V] of what follows each prompt and the given tokens, in any order and from several
// goroutines. use must not keep them. Only tokens that continue the step before's tokens are computed. The results of a
// prompt do not depend on the number of threads. Step ends between two crews of prompts when ctx ends; it is not safe
// for concurrent use.
func (l *Lockstep) Step(ctx context.Context, tokens []int32, use func(prompt int, logits []float32) error) error {
	if len(tokens) > l.room {
		return fmt.Errorf("lm: %d tokens in lockstep, and there is room for %d", len(tokens), l.room)
	}
	if err := l.m.CheckTokens(tokens); err != nil {
		return err
	}
	return tensor.Parallel(len(l.crews), func(i int, s *tensor.Scope) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := l.crews[i]
		var hidden tensor.Tensor
		if p.keep {
			hidden = l.advance(s, p, tokens)
		} else {
			rows := numeric.Map(p.which, func(at int) []int32 { return slices.Concat(l.prompts[at], tokens) })
			_, hidden = l.read(s, rows, l.width+len(tokens), 1)
			s.Own(hidden)
		}
		for from := 0; from < len(p.which); from += logitRows {
			n := min(logitRows, len(p.which)-from)
			var err error
			s.Do(func() {
				logits := l.m.Logits(s, s.Narrow(hidden, 0, int64(from), int64(n))).Host()
				for k := range n {
					if err == nil {
						err = use(p.which[from+k], logits[k*l.m.Config.Vocab:(k+1)*l.m.Config.Vocab])
					}
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// read runs the model over rows, padded to a width unless l.width is 0, and returns the caches with their keys, and the
// kept hidden states [n, H] after each row.
func (l *Lockstep) read(s *tensor.Scope, rows [][]int32, width, room int) (caches []*tensor.DecodeCache,
	hidden tensor.Tensor) {
	longest := numeric.Greatest(rows, func(r []int32) int { return len(r) })
	if l.width > 0 {
		longest = width
	}
	shape := l.m.cacheShape(longest, room)
	shape.Whole = l.width > 0
	for range l.m.Config.Layers {
		caches = append(caches, newCache(s, shape, len(rows), len(rows)))
	}
	var ends []tensor.Tensor
	for from := 0; from < len(rows); {
		n := min(len(rows)-from, max(1, prefillTokens/longest))
		some := rows[from : from+n]
		ends = append(ends, s.Nest(func() tensor.Tensor {
			in := PaddedInput(s, some, l.m.Config.Context)
			if l.width > 0 {
				in = PaddedInput(s, append([][]int32{make([]int32, longest)}, some...), l.m.Config.Context)
				in.IDs = s.Contiguous(s.Narrow(in.IDs, 0, 1, int64(n)))
			}
			prefixes := numeric.Tabulate(n, func(i int) int32 { return int32(from + i) })
			return l.m.prefill(s, caches, in, prefixes, some)
		}))
		from += n
	}
	return caches, s.Keep(s.Cat(0, ends...))
}

// advance feeds a kept crew the tokens that its cache lacks and returns the hidden states [n, H] after the last one.
func (l *Lockstep) advance(s *tensor.Scope, p *crew, tokens []int32) tensor.Tensor {
	if p.cache == nil {
		rows := numeric.Pick(l.prompts, p.which)
		var caches []*tensor.DecodeCache
		s.Do(func() {
			caches, p.start = l.read(s, rows, l.width, l.room)
			for _, c := range caches {
				for _, t := range []tensor.Tensor{c.PrefixK, c.PrefixV, c.SuffixK, c.SuffixV} {
					s.Keep(t)
				}
			}
		})
		p.cache = caches
	}
	common := 0
	for common < min(len(p.fed), len(tokens)) && p.fed[common] == tokens[common] {
		common++
	}
	switch {
	case len(tokens) == 0:
		return p.start
	case common == len(tokens) && common == len(p.fed):
		return p.last
	case common == len(tokens): // feeding an earlier token again gives the state after it
		common--
	}
	p.fed = append(p.fed[:0:0], tokens[:common]...)
	for _, id := range tokens[common:] {
		s.Do(func() {
			next := s.Keep(l.feed(s, p, id))
			p.last.Free()
			p.last = next
		})
		p.fed = append(p.fed, id)
	}
	return p.last
}

// feed runs one token through all prompts of a crew, behind the tokens that they were fed.
func (l *Lockstep) feed(s *tensor.Scope, p *crew, id int32) tensor.Tensor {
	n := len(p.which)
	full := n
	if !l.m.packed() {
		full = roundUp(n, 16) // the library compiles a kernel for each new size of a product
	}
	ids, positions, rows := make([]int64, full), make([]int64, full), newRows(n)
	for i, prompt := range p.which {
		length := len(l.prompts[prompt])
		ids[i], positions[i] = int64(id), int64(length+len(p.fed))
		rows.Slot[i], rows.SuffixLen[i] = int32(i), int32(len(p.fed))
		rows.Prefix[i], rows.PrefixLen[i] = int32(i), int32(length)
	}
	hidden := l.m.decodeStep(s, p.cache, ids, positions, rows)
	return s.Contiguous(s.Narrow(hidden, 0, 0, int64(n)))
}
