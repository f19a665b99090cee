package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"popri/datasets/clients"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/scoring/ensemble"
)

// Teachers are train clients as the teachers of Hot PATE: prompts of their texts, which vote for the next token of a text
// (package scoring/ensemble). They implement fedsim.Ensemble.
//
//	teacher i: the texts of clients C_i, disjoint ─► prompt ─► p^(i)(· | prompt, text so far) ─► vote ─► histogram
//
// Prompts, distributions and histograms are private data, and stay here and in fedsim, which adds noise to a histogram
// and releases one token of it. Which clients share a teacher follows from the seed and their number, which are public;
// one client's texts are in one prompt alone.
type Teachers struct {
	ctx     context.Context // of the process: votes end between two parts of the teachers when it does
	clients int
	model   *lm.Model
	step    *lm.Lockstep
	abstain []bool // teachers without a prompt
}

// TeacherOptions say how teachers are made.
type TeacherOptions struct {
	Teachers int    // at most as many as there are clients
	Examples int    // texts of a prompt, drawn from the teacher's clients
	Seed     uint64 // of the clients' order and the draws of texts
	Room     int    // most tokens of a text
	Width    int    // most tokens of a prompt; it must be public
	// CacheBytes is the memory for the prompts' keys and values, see [lm.LockstepOptions]; 0 for its default.
	CacheBytes int64
	// Prompt makes the tokens of a prompt that quotes texts; none if no text fits. It must depend on nothing but these
	// texts and public data.
	Prompt func(texts []string) ([]int32, error)
}

// NewTeachers makes the prompts. A teacher without texts abstains: it has a prompt that does not count. All prompts are padded
// to one length, so that one teacher's texts do not change how another's logits are rounded, which could change a vote.
// Votes end when ctx ends. Close releases the memory of their keys and values; the model is the caller's.
func NewTeachers(ctx context.Context, train []clients.Client, m *lm.Model, o TeacherOptions) (*Teachers, error) {
	if o.Teachers < 1 || o.Teachers > len(train) || o.Examples < 1 || o.Width < 1 {
		return nil, fmt.Errorf("teachers: %d teachers of %d clients with %d texts each, in %d tokens", o.Teachers,
			len(train), o.Examples, o.Width)
	}
	prompts, abstain := make([][]int32, o.Teachers), make([]bool, o.Teachers)
	for i, members := range Groups(len(train), o.Teachers, o.Seed) {
		texts := clients.Texts(numeric.Pick(train, members))
		random := rng.New(o.Seed, "teachers", "texts", strconv.Itoa(i))
		random.Shuffle(len(texts), func(a, b int) { texts[a], texts[b] = texts[b], texts[a] })
		if texts = texts[:min(o.Examples, len(texts))]; len(texts) > 0 {
			var err error
			if prompts[i], err = o.Prompt(texts); err != nil {
				return nil, fmt.Errorf("teachers: a teacher's prompt: %w", err)
			}
		}
		if abstain[i] = len(prompts[i]) == 0; abstain[i] {
			prompts[i] = []int32{0}
		}
	}
	step, err := m.NewLockstep(prompts, lm.LockstepOptions{Room: o.Room, Width: o.Width, CacheBytes: o.CacheBytes})
	if err != nil {
		return nil, fmt.Errorf("teachers: %w", err)
	}
	return &Teachers{ctx: ctx, clients: len(train), model: m, step: step, abstain: abstain}, nil
}

// Groups divides clients among teachers as evenly as can be, in an order that follows from the seed.
func Groups(clients, teachers int, seed uint64) [][]int {
	order := rng.New(seed, "teachers", "clients").Perm(clients)
	return numeric.Tabulate(teachers, func(i int) []int {
		return slices.Sorted(slices.Values(order[i*clients/teachers : (i+1)*clients/teachers]))
	})
}

// Close releases memory. nil has none.
func (e *Teachers) Close() {
	if e != nil {
		e.step.Free()
	}
}

// N implements fedsim.Ensemble.
func (e *Teachers) N() int { return e.clients }

// Votes implements fedsim.Ensemble.
func (e *Teachers) Votes(q ensemble.Question) ([]int64, error) {
	if q.Vocab != e.model.Config.Vocab {
		return nil, fmt.Errorf("teachers: a vote for one of %d tokens, the model has %d", q.Vocab, e.model.Config.Vocab)
	}
	var shared []float64
	if q.Coordinated {
		shared = q.Randomness()
	}
	counts, lock := make([]int64, q.Vocab), sync.Mutex{}
	err := e.step.Step(e.ctx, q.Prefix, func(teacher int, logits []float32) error {
		if e.abstain[teacher] {
			return nil
		}
		var token int32
		if q.Coordinated {
			token = ensemble.Vote(logits, q.Temperature, shared)
		} else {
			token = ensemble.Draw(logits, q.Temperature, q.Banned, q.Uniform(teacher))
		}
		if token < 0 || math.IsNaN(float64(logits[token])) {
			return errors.New("the model's logits are not finite")
		}
		lock.Lock()
		counts[token]++
		lock.Unlock()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("teachers: %w", err)
	}
	return counts, nil
}
