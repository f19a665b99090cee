package dpo

import (
	"context"
	"fmt"

	"popri/model/safetensors"
)

// Sync makes the reference follow the policy in a training (TR-DPO, Gorbatovski et al. 2024, arXiv 2404.09656, equation
// 5): after each Steps updates, θ_ref becomes α·θ + (1 − α)·θ_ref. θ are the adapter's parameters, and the reference
// begins as the adapter that changes nothing. With α = 1 it is the policy itself; below, the mixture of A and of B is
// not quite that of their products.
type Sync struct {
	Steps   int     // TRL's ref_model_sync_steps; 0 keeps the reference
	Alpha   float64 // TRL's ref_model_mixup_alpha, above 0 up to 1
	Current bool    // the reference begins as the adapter at the beginning of the training
}

// check returns an error if the numbers are impossible.
func (s Sync) check() error {
	if s.Steps < 0 || s.Steps > 0 && !(s.Alpha > 0 && s.Alpha <= 1) {
		return fmt.Errorf("dpo: the reference follows every %d updates by a fraction of %g", s.Steps, s.Alpha)
	}
	return nil
}

// beginReference makes the reference of a training whose reference follows the policy.
func (f *Fit) beginReference() (err error) {
	if err := f.Sync.check(); err != nil || f.Sync.Steps == 0 {
		return err
	}
	if f.reference, err = f.Tuner.Adapter.Copy(); err == nil && !f.Sync.Current {
		err = f.reference.Neutral()
	}
	return err
}

func (f *Fit) endReference() {
	if f.reference != nil {
		f.reference.Free()
		f.reference = nil
	}
}

// follow mixes the policy into the reference if it is due after an update.
func (f *Fit) follow(update int) {
	if f.Sync.Steps == 0 || update%f.Sync.Steps != 0 {
		return
	}
	alpha, kept := float32(f.Sync.Alpha), float32(1-f.Sync.Alpha)
	policy := f.Tuner.Adapter.Tensors()
	for i, r := range f.reference.Tensors() {
		x := r.Host()
		for k, p := range policy[i].Host() {
			x[k] = float32(x[k]*kept) + float32(p*alpha)
		}
		r.Store(x)
	}
}

// upToDate gives pairs the log-probabilities under a reference that has moved. Until it has, they are those that pairs
// have.
func (f *Fit) upToDate(ctx context.Context, pairs []Pair) error {
	if f.Sync.Steps == 0 || f.outcome.Updates < f.Sync.Steps {
		return nil
	}
	return f.Tuner.reference(ctx, pairs, f.reference)
}

// Begin implements [trainer.Stateful].
func (f *Fit) Begin(context.Context) error { return nil }

// Tensors implements [trainer.Stateful]: the reference, if it follows the policy.
func (f *Fit) Tensors() (list []safetensors.Tensor) {
	if f.reference == nil {
		return nil
	}
	for i, r := range f.reference.Tensors() {
		list = append(list, safetensors.FromFloat32(referenceName(i), r.Shape(), r.Host()))
	}
	return list
}

// Restore implements [trainer.Stateful].
func (f *Fit) Restore(file *safetensors.File) error {
	if f.reference == nil {
		return nil
	}
	for i, r := range f.reference.Tensors() {
		stored, ok := file.Tensor(referenceName(i))
		if !ok {
			return fmt.Errorf("%s: tensor %s is missing", file.Path(), referenceName(i))
		}
		data, err := stored.Float32s()
		if err != nil {
			return fmt.Errorf("%s: %w", file.Path(), err)
		}
		if int64(len(data)) != r.NumElements() {
			return fmt.Errorf("%s: tensor %s has %d values, the reference %d", file.Path(), referenceName(i), len(data),
				r.NumElements())
		}
		r.Store(data)
	}
	return nil
}

func referenceName(i int) string { return fmt.Sprintf("reference.%05d", i) }
