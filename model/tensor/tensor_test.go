package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRunFreesWhatItMadeAndKeepOutlives(t *testing.T) {
	before := Live()
	var kept Tensor
	err := Run(func(s *Scope) error {
		a := s.FromFloat32([]float32{1, 2, 3, 4}, 2, 2)
		kept = s.Keep(s.MatMul(a, a))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := Live() - before; got != 1 {
		t.Fatalf("%d handles live after Run, want the kept one", got)
	}
	if err := Run(func(s *Scope) error {
		if got := s.Float32s(kept); got[0] != 7 || got[3] != 22 {
			t.Errorf("kept tensor holds %v", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	kept.Free()
	if Live() != before {
		t.Errorf("%d handles leak", Live()-before)
	}
}

func TestFailingOperationNamesItselfAndShapes(t *testing.T) {
	before := Live()
	err := Run(func(s *Scope) error {
		s.MatMul(s.Zeros(Float32, 2, 3), s.Zeros(BFloat16, 4, 5))
		return nil
	})
	var e *Error
	if !errors.As(err, &e) || e.Op != "MatMul" {
		t.Fatalf("got %v, want an *Error of MatMul", err)
	}
	for _, want := range []string{"MatMul", "float32[2 3]", "bfloat16[4 5]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if Live() != before {
		t.Errorf("%d handles leak after an error", Live()-before)
	}
	err = Run(func(s *Scope) error { s.Copy_(s.Zeros(Float32, 2), s.Zeros(Float32, 3)); return nil })
	if !errors.As(err, &e) || e.Op != "Copy_" || strings.Contains(err.Error(), "Exception raised from") {
		t.Errorf("got %v, want an *Error of Copy_ without libtorch's stack", err)
	}
	// The thread's error state is clean again.
	if err := Run(func(s *Scope) error { s.Zeros(Float32, 1); return nil }); err != nil {
		t.Error(err)
	}
}

func TestGradModesNest(t *testing.T) {
	err := Run(func(s *Scope) error {
		w := s.FromFloat32([]float32{3}, 1)
		s.RequireGrad(w, true)
		if s.Square(w).RequiresGrad() {
			t.Error("Run records gradients without being asked")
		}
		s.WithGrad(func() {
			s.NoGrad(func() {
				s.NoGrad(func() {})
				if s.Square(w).RequiresGrad() {
					t.Error("NoGrad records")
				}
			})
			y := s.Sum(s.Square(w))
			if !y.RequiresGrad() {
				t.Fatal("WithGrad does not record after an inner NoGrad")
			}
			if g := s.Float32s(s.Backward(y, []Tensor{w})[0]); g[0] != 6 {
				t.Errorf("gradient of w² at 3 is %v", g)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestManyAllocationsLeakNothing allocates for a second, or for as long as POPRI_LEAK says (make leak: a minute): sizes
// that vary, gradients, errors, several goroutines. Afterwards no handle is left, and the process has not grown since
// its first part.
func TestManyAllocationsLeakNothing(t *testing.T) {
	length := time.Second
	if text := os.Getenv("POPRI_LEAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	before := Live()
	work := func(i int, s *Scope) error {
		random := rand.New(rand.NewPCG(7, uint64(i)))
		for range 20 {
			s.Do(func() {
				w := s.Zeros(Float32, 1+random.Int64N(300), 1+random.Int64N(300))
				s.RequireGrad(w, true)
				s.WithGrad(func() {
					y := s.Sum(s.Square(s.AddScalar(s.MulScalar(w, 1.5), 1)))
					s.Backward(y, []Tensor{w})
				})
			})
		}
		if i%5 == 0 { // an operation that fails in the middle
			s.MatMul(s.Zeros(Float32, 100, 3), s.Zeros(Float32, 4, 5))
		}
		return nil
	}
	var grown int64
	begun := time.Now()
	for part := 0; part < 2 || time.Since(begun) < length; part++ {
		for i := range 40 {
			err := Parallel(2, func(k int, s *Scope) error { return work(i, s) })
			var e *Error
			if (i%5 == 0) != errors.As(err, &e) {
				t.Fatalf("work %d: %v", i, err)
			}
		}
		if part == 0 {
			grown = -resident(t)
		}
	}
	grown += resident(t)
	t.Logf("%.0f s, %d MiB more than after the first part", time.Since(begun).Seconds(), grown>>20)
	if grown > 64<<20 {
		t.Errorf("the process grew by %d MiB", grown>>20)
	}
	if Live() != before {
		t.Errorf("%d handles leak", Live()-before)
	}
}

// resident is the process's size in memory, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err) // not Linux
	}
	var all, pages int64
	if _, err := fmt.Sscan(string(raw), &all, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func TestGoroutineStorm(t *testing.T) {
	before := Live()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range 20 {
				err := Run(func(s *Scope) error {
					x := s.Full(Float32, float64(i), 16, 16)
					s.RequireGrad(x, true)
					s.WithGrad(func() {
						g := s.Backward(s.Sum(s.Square(x)), []Tensor{x})[0]
						if got := s.Float32s(g)[0]; got != float32(2*i) {
							t.Errorf("goroutine %d: gradient %v", i, got)
						}
					})
					if j%3 == 0 {
						s.MatMul(x, s.Zeros(Float32, 3, 3))
					}
					return nil
				})
				if (err != nil) != (j%3 == 0) {
					t.Errorf("goroutine %d, turn %d: error %v", i, j, err)
				}
			}
		}()
	}
	wg.Wait()
	if Live() != before {
		t.Errorf("%d handles leak", Live()-before)
	}
}

func TestAdamWMatchesTheFormula(t *testing.T) {
	const n = 37 // vectors of every width, and a rest
	p, g := make([]float32, n), make([]float32, n)
	a := NewAdamW(0.9, 0.999, 1e-8, 0.01, []int{n})
	m, v, want := [n]float64{}, [n]float64{}, [n]float64{}
	for i := range p {
		p[i], g[i] = float32(i-18)/7, float32(i%5-2)/10
		want[i] = float64(p[i])
	}
	for step := 1; step <= 5; step++ {
		if err := a.Update([][]float32{p}, [][]float32{g}, 0.01, 0.5); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			gi := float64(g[i]) * 0.5
			m[i] = 0.9*m[i] + 0.1*gi
			v[i] = 0.999*v[i] + 0.001*gi*gi
			want[i] -= 0.01 * 0.01 * want[i]
			want[i] -= 0.01 * (m[i] / (1 - math.Pow(0.9,
				float64(step)))) / (math.Sqrt(v[i]/(1-math.Pow(0.999, float64(step)))) + 1e-8)
			if math.Abs(float64(p[i])-want[i]) > 1e-6 {
				t.Errorf("step %d, parameter %d: %v, want %v", step, i, p[i], want[i])
			}
		}
	}
	if err := a.Update([][]float32{p[:2]}, [][]float32{g}, 1, 1); err == nil {
		t.Error("a parameter of another size is taken")
	}
}

// TestAdamWThreads: neither the bits of an update nor the bits of a norm depend on the threads.
func TestAdamWThreads(t *testing.T) {
	defer SetThreads(Threads())
	const n = 3*partElements + 11
	var first []float32
	var norm float64
	for _, threads := range []int{1, 2, 5} {
		SetThreads(threads)
		p, g := make([]float32, n), make([]float32, n)
		for i := range g {
			p[i], g[i] = float32(i%13)-6, float32(i%7)-2.9
		}
		a := NewAdamW(0.9, 0.999, 1e-8, 0.01, []int{n})
		if err := a.Update([][]float32{p}, [][]float32{g}, 0.01, 1); err != nil {
			t.Fatal(err)
		}
		got := GlobalNorm([][]float32{g})
		if first == nil {
			first, norm = p, got
			want := 0.0
			for _, x := range g {
				want += float64(x) * float64(x)
			}
			if math.Abs(norm/math.Sqrt(want)-1) > 1e-5 {
				t.Errorf("the norm is %g, want %g", norm, math.Sqrt(want))
			}
		}
		if !slices.Equal(p, first) || got != norm {
			t.Errorf("%d threads give another update, or the norm %g instead of %g", threads, got, norm)
		}
	}
}

func BenchmarkCallOverhead(b *testing.B) {
	_ = Run(func(s *Scope) error {
		x := s.Zeros(Float32, 1)
		for b.Loop() {
			s.Do(func() { s.AddScalar(x, 1) })
		}
		return nil
	})
}

func benchmarkMatMul(b *testing.B, d DType) {
	_ = Run(func(s *Scope) error {
		x := s.Zeros(d, 2048, 2048)
		for b.Loop() {
			s.Do(func() { s.MatMul(x, x) })
		}
		b.ReportMetric(2*2048*2048*2048*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		return nil
	})
}

func BenchmarkMatMulFloat32(b *testing.B)  { benchmarkMatMul(b, Float32) }
func BenchmarkMatMulBFloat16(b *testing.B) { benchmarkMatMul(b, BFloat16) }

func TestParallelTasksAreIndependentOfThreads(t *testing.T) {
	defer SetThreads(0)
	run := func(threads int) [][]float32 {
		SetThreads(threads)
		out := make([][]float32, 24)
		err := Parallel(len(out), func(i int, s *Scope) error {
			x := s.Full(BFloat16, float64(i)/7, 65, 256)
			for k := range 4 {
				x = s.Softmax(s.MatMul(x, s.Full(BFloat16, float64(k)/9, 256, 256)), -1)
			}
			out[i] = s.Float32s(x)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run(1)
	for _, threads := range []int{2, 5} {
		for i, got := range run(threads) {
			for k := range got {
				if got[k] != want[i][k] {
					t.Fatalf("%d threads: task %d element %d is %v, with one thread %v", threads, i, k, got[k],
						want[i][k])
				}
			}
		}
	}
	wrong := errors.New("wrong")
	if err := Parallel(5, func(i int, s *Scope) error {
		if i == 3 {
			return wrong
		}
		return nil
	}); !errors.Is(err, wrong) {
		t.Errorf("got %v, want the task's error", err)
	}
}
