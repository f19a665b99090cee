package benchmark

import (
	"time"

	"gonum.org/v1/gonum/floats"

	"popri/model/tensor"
)

// ProductRate is how many floating-point operations a second all threads do in large matrix products. Each thread does
// products of its own, as most of the work is done: on a machine that is busy, threads that share a product would wait
// for each other, and the rate would be lower than that of the work. A product is done when a value of it has been read,
// because a GPU still computes after the call has returned.
func ProductRate(d tensor.DType) (float64, error) {
	const least = 300 * time.Millisecond
	side := int64(1024)
	if tensor.DefaultDevice() != tensor.CPU {
		side = 8192 // a smaller product takes a GPU less time than to begin it and to read a value
	}
	rates := make([]float64, tensor.Threads())
	err := tensor.Parallel(len(rates), func(i int, s *tensor.Scope) error {
		x := s.Full(d, 0.5, side, side)
		product := func() {
			s.Do(func() { s.To(s.Select(s.Select(s.MatMul(x, x), 0, 0), 0, 0), tensor.Float32).Host() })
		}
		product() // the first one makes the kernel
		begun, done := time.Now(), 0
		for ; time.Since(begun) < least; done++ {
			product()
		}
		rates[i] = 2 * float64(side*side*side) * float64(done) / time.Since(begun).Seconds()
		return nil
	})
	return floats.Sum(rates), err
}
