package tensor

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// outside returns n bytes outside Go's heap.
func outside(t *testing.T, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, max(n, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b[:n]
}

func TestBorrow(t *testing.T) {
	data := outside(t, 28)
	for i := range 6 {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i)))
	}
	err := Run(func(s *Scope) error {
		x := s.Borrow(Float32, data[:24], 2, 3)
		if got := s.Float32s(s.Transpose(x, 0, 1)); !slices.Equal(got, []float32{0, 3, 1, 4, 2, 5}) {
			t.Errorf("borrowed %v", got)
		}
		// It is the memory itself.
		binary.LittleEndian.PutUint32(data[4:], math.Float32bits(9))
		if got := s.Float32s(x)[1]; got != 9 {
			t.Errorf("after a change of the memory: %g", got)
		}
		// What is askew for its type is copied.
		copy(data[1:25], data[:24])
		if got := s.Float32s(s.Borrow(Float32, data[1:25], 6)); !slices.Equal(got, []float32{0, 9, 2, 3, 4, 5}) {
			t.Errorf("askew: %v", got)
		}
		if got := s.Borrow(Float32, nil, 0, 4); got.NumElements() != 0 {
			t.Errorf("nothing gives %v", got.Shape())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = Run(func(s *Scope) error { s.Borrow(Float32, data[:20], 2, 3); return nil })
	if err == nil || !strings.Contains(err.Error(), "Borrow") {
		t.Errorf("too few bytes: %v", err)
	}
}

// A value that is not finite is found wherever it stands, and only then.
func TestFinite(t *testing.T) {
	both(t, func(s *Scope) error {
		for _, d := range []DType{Float16, BFloat16, Float32, Float64} {
			for _, n := range []int{1, 7, 1000, 1<<20 + 3} {
				values := make([]float32, n)
				for i := range values {
					values[i] = float32(i%1000) * 65 * float32(1-2*(i%2)) // up to the largest half
				}
				for _, at := range []int{-1, 0, n / 2, n - 1} {
					for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
						v := slices.Clone(values)
						if at >= 0 {
							v[at] = float32(bad)
						}
						if got := s.Finite(s.To(s.FromFloat32(v, int64(n)), d)); got != (at < 0) {
							t.Errorf("%v, %d values, %g at %d: finite %v", d, n, bad, at, got)
						}
						if at < 0 || n > 1000 {
							break
						}
					}
				}
			}
		}
		return nil
	})
	if err := Run(func(s *Scope) error { s.Finite(s.FromInt64([]int64{1}, 1)); return nil }); err == nil {
		t.Error("integers were accepted")
	}
}
