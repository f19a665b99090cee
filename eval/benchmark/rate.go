package benchmark

import (
	"time"

	"popri/model/tensor"
)

// ProductRate is how many floating-point operations a second all threads do in large matrix products.
func ProductRate(d tensor.DType) (float64, error) {
	const side, least = 1024, 200 * time.Millisecond
	done, spent := 0, time.Duration(0)
	err := tensor.Run(func(s *tensor.Scope) error {
		x := s.Full(d, 0.5, side, side)
		product := func() { s.Do(func() { s.MatMul(x, x) }) }
		product() // the first one makes the kernel
		begun := time.Now()
		for ; spent < least; spent = time.Since(begun) {
			product()
			done++
		}
		return nil
	})
	return float64(done) * 2 * side * side * side / spent.Seconds(), err
}
