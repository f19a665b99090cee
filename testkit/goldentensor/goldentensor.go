// Package goldentensor reads the tensors of golden data.
package goldentensor

import (
	"testing"

	"popri/model/safetensors"
	"popri/model/tensor"
)

// Cases are the tensors of a golden file.
type Cases struct {
	t    testing.TB
	file *safetensors.File
}

// Open opens a safetensors file until the test ends, or fails.
func Open(t testing.TB, path string) Cases {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return Cases{t, f}
}

// Has reports whether the file has a tensor of that name.
func (c Cases) Has(name string) bool { _, ok := c.file.Tensor(name); return ok }

// Load copies a tensor into the scope. A missing name, or a type other than float32, int64 and uint8, fails the test.
func (c Cases) Load(s *tensor.Scope, name string) tensor.Tensor {
	c.t.Helper()
	x, ok := c.file.Tensor(name)
	if !ok {
		c.t.Fatalf("no tensor %s", name)
	}
	types := map[safetensors.DType]tensor.DType{safetensors.F32: tensor.Float32, safetensors.I64: tensor.Int64,
		safetensors.U8: tensor.Uint8}
	d, ok := types[x.DType]
	if !ok {
		c.t.Fatalf("tensor %s has the type %v", name, x.DType)
	}
	return s.FromBytes(d, x.Data, x.Shape...)
}
