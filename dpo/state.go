package dpo

import (
	"fmt"
	"strconv"

	"popri/safetensors"
)

// Save writes the optimizer's state: updates done and both moments.
func (t *Trainer) Save(path string) error {
	var list []safetensors.Tensor
	for i := range t.opt.Adam.M {
		n := []int64{int64(len(t.opt.Adam.M[i]))}
		list = append(list, safetensors.FromFloat32(fmt.Sprintf("m.%05d", i), n, t.opt.Adam.M[i]), safetensors.FromFloat32(fmt.Sprintf("v.%05d", i), n, t.opt.Adam.V[i]))
	}
	return safetensors.Write(path, list, map[string]string{"steps": strconv.Itoa(t.done)})
}

// Restore reads what [Trainer.Save] wrote. The adapter must be the one saved with it.
func (t *Trainer) Restore(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("dpo: %w", err)
	}
	defer f.Close()
	steps, err := strconv.Atoi(f.Metadata()["steps"])
	if err != nil || steps < 0 {
		return fmt.Errorf("dpo: %s: the number of steps is %q", path, f.Metadata()["steps"])
	}
	for i := range t.opt.Adam.M {
		for kind, into := range map[string][]float32{"m": t.opt.Adam.M[i], "v": t.opt.Adam.V[i]} {
			name := fmt.Sprintf("%s.%05d", kind, i)
			x, ok := f.Tensor(name)
			if !ok {
				return fmt.Errorf("dpo: %s: tensor %s is missing", path, name)
			}
			data, err := x.Float32s()
			if err != nil {
				return fmt.Errorf("dpo: %s: %w", path, err)
			}
			if len(data) != len(into) {
				return fmt.Errorf("dpo: %s: tensor %s has %d values, the adapter %d", path, name, len(data), len(into))
			}
			copy(into, data)
		}
	}
	t.done, t.opt.Adam.Step = steps, steps
	return nil
}
