package benchmark

import (
	"time"

	"gonum.org/v1/gonum/floats"

	"popri/model/tensor"
)

// ProductRate is how many floating-point operations a second all threads do in large matrix products. Each thread does
// products of its own, as most of the work is done: on a machine that is busy, threads that share a product would wait
// for each other, and the rate would be lower than that of the work.
func ProductRate(d tensor.DType) (float64, error) {
	const side, least = 1024, 300 * time.Millisecond
	rates := make([]float64, tensor.Threads())
	err := tensor.Parallel(len(rates), func(i int, s *tensor.Scope) error {
		x := s.Full(d, 0.5, side, side)
		product := func() { s.Do(func() { s.MatMul(x, x) }) }
		product() // the first one makes the kernel
		begun, done := time.Now(), 0
		for ; time.Since(begun) < least; done++ {
			product()
		}
		rates[i] = 2 * side * side * side * float64(done) / time.Since(begun).Seconds()
		return nil
	})
	return floats.Sum(rates), err
}
