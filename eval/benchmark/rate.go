package benchmark

import (
	"slices"
	"time"

	"popri/model/tensor"
)

// ProductRate is how many floating-point operations a second all threads do in large matrix products: the median of
// several, because on a busy machine single ones wait for a processor for many times their own length.
func ProductRate(d tensor.DType) (float64, error) {
	const side, least, products = 1024, 200 * time.Millisecond, 9
	var took []float64
	err := tensor.Run(func(s *tensor.Scope) error {
		x := s.Full(d, 0.5, side, side)
		product := func() { s.Do(func() { s.MatMul(x, x) }) }
		product() // the first one makes the kernel
		for spent := time.Duration(0); spent < least || len(took) < products; {
			begun := time.Now()
			product()
			one := time.Since(begun)
			spent += one
			took = append(took, one.Seconds())
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.Sort(took)
	return 2 * side * side * side / took[len(took)/2], nil
}
