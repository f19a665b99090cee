package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"

	_ "github.com/sugarme/gotch/libtch" // links libtorch and the C functions declared in torch.h

	"popri/internal/numeric"
)

// A Tensor is a handle on a libtorch tensor. The zero value is "no tensor", which some operations accept.
type Tensor struct{ c C.tensor }

// Defined reports whether t holds a tensor.
func (t Tensor) Defined() bool { return t.c != nil }

// A Scope owns the tensors made in it. It belongs to the goroutine of its [Run].
type Scope struct {
	owned   []C.tensor
	device  Device
	grad    bool
	threads int
	// portable says that operations of libtorch replace this package's kernels, also on the CPU.
	portable bool
	// gpu says that the kernels of a GPU replace them.
	gpu bool
}

// Error has the failed operation, its shapes, and libtorch's message.
type Error struct {
	Op     string
	Shapes []string
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("tensor: %s(%s): %s", e.Op, strings.Join(e.Shapes, ", "), e.Text)
}

var live atomic.Int64

// Live returns the number of handles that were made and not freed yet, in all scopes and kept: for leak checks in
// tests.
func Live() int64 { return live.Load() }

// Run calls f with a fresh scope on a locked thread, with gradients off, and frees what f made and did not keep. It
// returns f's error, or an [*Error] if an operation failed; other panics propagate. Operations use the number of
// threads that [SetThreads] chose.
func Run(f func(s *Scope) error) error { return runOn(Threads(), f) }

// AtOnce is how many tasks of [Parallel] run at a time: as many as [SetThreads] chose threads, and two on a GPU, one of
// which computes while the other prepares.
func AtOnce() int {
	if DefaultDevice() != CPU {
		return min(2, Threads())
	}
	return Threads()
}

// Parallel runs n independent tasks, [AtOnce] at a time, each operation on one thread.
// Small operations scale far better this way than with several threads for each, and a task's result does not depend on
// the number of threads. Every task gets its own scope; tensors that it keeps outlive it. Parallel returns the first
// error, and begins no further task after one.
func Parallel(n int, task func(i int, s *Scope) error) error {
	_, end := waits()
	defer end()
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(AtOnce())
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			return runOn(1, func(s *Scope) error { return task(i, s) })
		})
	}
	return group.Wait()
}

func runOn(threads int, f func(s *Scope) error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer atGo()()
	useThreads(threads)
	at, err := device()
	if err != nil {
		return fmt.Errorf("tensor: %w", err)
	}
	s := &Scope{device: at, threads: threads, portable: portable, gpu: onGPU()}
	before := C.at_grad_set_enabled(0)
	defer func() {
		s.free()
		C.at_grad_set_enabled(before)
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	return f(s)
}

func (s *Scope) free() {
	defer releases()()
	for _, c := range s.owned {
		C.at_free(c)
	}
	live.Add(-int64(len(s.owned)))
	s.owned = s.owned[:0]
}

// WithGrad calls f with gradients recorded, and restores the former mode. It nests with [Scope.NoGrad].
func (s *Scope) WithGrad(f func()) { s.mode(true, f) }

// Recording reports whether gradients are recorded.
func (s *Scope) Recording() bool { return s.grad }

// NoGrad calls f without recording gradients, and restores the former mode.
func (s *Scope) NoGrad(f func()) { s.mode(false, f) }

func (s *Scope) mode(on bool, f func()) {
	old := s.grad
	s.grad = on
	C.at_grad_set_enabled(cbool(on))
	defer func() {
		s.grad = old
		C.at_grad_set_enabled(cbool(old))
	}()
	f()
}

// Nest calls f and frees at its end what f made, except the tensor that it returns. Long loops use it to keep memory
// constant.
func (s *Scope) Nest(f func() Tensor) Tensor {
	start := len(s.owned)
	out := f()
	end := releases()
	kept := false
	for _, c := range s.owned[start:] {
		if c == out.c {
			kept = true
			continue
		}
		C.at_free(c)
		live.Add(-1)
	}
	end()
	s.owned = s.owned[:start]
	if kept {
		s.owned = append(s.owned, out.c)
	}
	return out
}

// Do calls f and frees at its end everything that f made and did not keep.
func (s *Scope) Do(f func()) {
	s.Nest(func() Tensor { f(); return Tensor{} })
}

// Keep takes t out of the scope; the caller frees it with [Tensor.Free].
func (s *Scope) Keep(t Tensor) Tensor {
	i := len(s.owned) - 1
	for i >= 0 && s.owned[i] != t.c {
		i--
	}
	if i < 0 {
		refuse("Keep", "the tensor is not owned by this scope", t)
	}
	s.owned = append(s.owned[:i], s.owned[i+1:]...)
	return t
}

// Own gives kept tensors back to a scope. The zero Tensor is allowed.
func (s *Scope) Own(ts ...Tensor) {
	for _, t := range ts {
		if t.c != nil {
			s.owned = append(s.owned, t.c)
		}
	}
}

// Free releases a kept tensor. The zero Tensor is allowed; any other may be freed once.
func (t Tensor) Free() {
	if t.c != nil {
		defer releases()()
		C.at_free(t.c)
		live.Add(-1)
	}
}

// own registers the result of an operation, or raises its error.
func (s *Scope) own(op string, c C.tensor, args ...Tensor) Tensor {
	if c == nil {
		s.fail(op, args...)
	}
	s.owned = append(s.owned, c)
	live.Add(1)
	return Tensor{c}
}

// result is the tensor of an operation that writes its handle; args are what an error is about.
func (s *Scope) result(op string, write func(out *C.tensor), args ...Tensor) Tensor {
	var out C.tensor
	write(&out)
	return s.own(op, out, args...)
}

// inPlace is an operation on one of its arguments, of which libtorch returns a second handle.
func (s *Scope) inPlace(op string, write func(out *C.tensor), args ...Tensor) {
	var out C.tensor
	if write(&out); out == nil {
		s.fail(op, args...)
	}
	C.at_free(out)
}

func (s *Scope) fail(op string, args ...Tensor) {
	text, ok := lastError()
	if !ok {
		text = "libtorch gave no result"
	}
	refuse(op, text, args...)
}

// lastError takes the error that a function of libtorch left on this thread, if any. libtorch appends its own stack,
// which does not help a user.
func lastError() (text string, ok bool) {
	msg := C.get_and_reset_last_err()
	if msg == nil {
		return "", false
	}
	defer C.free(unsafe.Pointer(msg))
	text, _, _ = strings.Cut(C.GoString(msg), "\nException raised from")
	return text, true
}

// refuse raises an error about the arguments of an operation.
func refuse(op, text string, args ...Tensor) {
	panic(&Error{Op: op, Shapes: numeric.Map(args, Tensor.describe), Text: text})
}

// onThread calls f outside a scope and raises its error.
func onThread(op string, t Tensor, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	(*Scope)(nil).check(op, t)
}

// check raises the error of a function without a result.
func (s *Scope) check(op string, args ...Tensor) {
	if text, ok := lastError(); ok {
		refuse(op, text, args...)
	}
}

func (t Tensor) describe() string {
	if t.c == nil {
		return "none"
	}
	text := fmt.Sprintf("%v%v", t.DType(), t.Shape())
	if d := t.device(); d != CPU {
		text = d.String() + " " + text
	}
	return text
}

func cbool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
