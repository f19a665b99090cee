package lm

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"popri/internal/rng"
	"popri/model/tensor"
)

// TestLockstep: the distributions are as in the whole forward pass, for prompts in memory and prompts that are read
// again, whatever was fed before; nothing is left when it is freed.
func TestLockstep(t *testing.T) {
	for name, c := range small() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			if !m.canSample() {
				t.Skip("writes no text")
			}
			random := rng.New(1, "lockstep")
			var prompts [][]int32
			for range 2*lockstepRows + 6 {
				p := make([]int32, 1+random.IntN(20))
				for i := range p {
					p[i] = int32(random.IntN(c.Vocab))
				}
				prompts = append(prompts, p)
			}
			begun := tensor.Live()
			for _, bytes := range []int64{0, 1, 300000} {
				l, err := m.NewLockstep(prompts, LockstepOptions{Room: 6, CacheBytes: bytes})
				if err != nil {
					t.Fatal(err)
				}
				if kept := l.kept(); bytes == 0 && kept != len(prompts) || bytes == 1 && kept != 0 {
					t.Errorf("%d prompts are kept in %d bytes", kept, bytes)
				}
				for _, tokens := range [][]int32{nil, {3}, {3, 5}, {3, 5, 7}, {3, 5, 7}, {3, 5}, {3, 9}, nil,
					{4, 4, 4, 4, 4, 4}} {
					got, lock := make([][]float32, len(prompts)), sync.Mutex{}
					err := l.Step(t.Context(), tokens, func(i int, logits []float32) error {
						lock.Lock()
						defer lock.Unlock()
						got[i] = slices.Clone(logits)
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					for _, i := range []int{0, 1, len(prompts) / 2, len(prompts) - 1} {
						row := append(slices.Clone(prompts[i]), tokens...)
						err := tensor.Run(func(s *tensor.Scope) error {
							all := s.Float32s(m.Logits(s, m.Hidden(s, PaddedInput(s, [][]int32{row}, c.Context), nil)))
							want := all[(len(row)-1)*c.Vocab:][:c.Vocab]
							for j := range want {
								if math.Abs(float64(want[j]-got[i][j])) > 2e-4 {
									t.Fatalf("prompt %d after %v, token %d: %g, want %g", i, tokens, j, got[i][j],
										want[j])
								}
							}
							return nil
						})
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				stop := errors.New("stop")
				if err := l.Step(t.Context(), nil, func(int, []float32) error { return stop }); !errors.Is(err, stop) {
					t.Errorf("the error is %v", err)
				}
				if err := l.Step(t.Context(), make([]int32, 7), nil); err == nil {
					t.Error("more tokens than there is room for")
				}
				l.Free()
				l.Free()
			}
			m.unpack()
			if left := tensor.Live() - begun; left > 0 {
				t.Errorf("%d tensors are left", left)
			}
		})
	}
}

// TestLockstepAlone: with a width, a prompt's logits are the same to the last bit whatever the other prompts are, so
// that anyone who takes a prompt's text away, or makes it longer, changes nothing of the others. They equal the forward
// pass's.
func TestLockstepAlone(t *testing.T) {
	const width = 30
	for _, name := range []string{"gpt2", "llama"} {
		m := newSmall(t, small()[name])
		random := rng.New(2, "alone")
		prompt := func() []int32 {
			p := make([]int32, 1+random.IntN(width))
			for i := range p {
				p[i] = int32(random.IntN(m.Config.Vocab))
			}
			return p
		}
		var prompts [][]int32
		for range lockstepRows + 9 {
			prompts = append(prompts, prompt())
		}
		logits := func(prompts [][]int32, bytes int64, width int) map[int][]float32 {
			l, err := m.NewLockstep(prompts, LockstepOptions{Room: 4, CacheBytes: bytes, Width: width})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Free()
			out, lock := map[int][]float32{}, sync.Mutex{}
			for _, tokens := range [][]int32{nil, {1}, {1, 2}} {
				err := l.Step(t.Context(), tokens, func(i int, x []float32) error {
					lock.Lock()
					defer lock.Unlock()
					out[i] = append(out[i], x...)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			return out
		}
		for _, bytes := range []int64{0, 1} {
			all, free := logits(prompts, bytes, width), logits(prompts, bytes, 0)
			for trial := range 8 {
				changed := random.IntN(len(prompts))
				others := slices.Clone(prompts)
				others[changed] = prompt()
				if trial == 0 {
					others[changed] = []int32{0}
				}
				for i, x := range logits(others, bytes, width) {
					if i != changed && !slices.Equal(x, all[i]) {
						t.Fatalf("%s, %d bytes: prompt %d changes the logits of prompt %d", name, bytes, changed, i)
					}
				}
			}
			for i, x := range all {
				for j := range x {
					if math.Abs(float64(x[j]-free[i][j])) > 1e-4 {
						t.Fatalf("%s, %d bytes: padding changes logit %d of prompt %d from %g to %g", name, bytes, j, i,
							free[i][j], x[j])
					}
				}
			}
		}
		if _, err := m.NewLockstep(prompts, LockstepOptions{Room: 4, Width: 5}); err == nil {
			t.Error("a prompt is longer than the width")
		}
	}
}

func TestLockstepRefuses(t *testing.T) {
	m := newSmall(t, small()["gpt2"])
	for _, prompts := range [][][]int32{nil, {{1}, {}}, {make([]int32, m.Config.Context)}, {{int32(m.Config.Vocab)}}} {
		if _, err := m.NewLockstep(prompts, LockstepOptions{Room: 4}); err == nil {
			t.Errorf("%d prompts are taken", len(prompts))
		}
	}
	if _, err := m.NewLockstep([][]int32{{1}}, LockstepOptions{}); err == nil {
		t.Error("no room is taken")
	}
}

// kept is the number of prompts whose keys and values stay in memory.
func (l *Lockstep) kept() int {
	n := 0
	for _, p := range l.crews {
		if p.keep {
			n += len(p.which)
		}
	}
	return n
}
