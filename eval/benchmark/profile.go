package benchmark

import (
	"cmp"
	"slices"
	"strings"
	"syscall"
	"time"

	"gonum.org/v1/gonum/floats"

	"popri/model/tensor"
)

// Profile splits the time of a measurement. Lines are in the order of the table and add up to Whole: the threads' time,
// wall clock times threads.
type Profile struct {
	Whole float64 `json:"thread_seconds"`
	// CPU is the processor time of the process. It is below the threads' time without idle threads where other
	// processes used the processor.
	CPU        float64     `json:"cpu_seconds"`
	Lines      []Line      `json:"lines"`
	Operations []Operation `json:"operations"` // that the lines are made of, the longest first
}

// Line is one class of work.
type Line struct {
	Class   string  `json:"class"`
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"` // of the whole
}

// Operation is one operation within a class.
type Operation struct {
	Name    string  `json:"name"`
	Class   string  `json:"class"`
	Seconds float64 `json:"seconds"`
	Calls   int64   `json:"calls"`
}

// The classes of work.
const (
	products    = "matrix products"
	attention   = "attention"
	head        = "head and sampling"
	elementwise = "norms, rotary and activations"
	copies      = "copies and conversions"
	optimizer   = "optimizer"
	allocation  = "allocation"
	golang      = "Go"
	idle        = "idle threads"
	other       = "other operations"
)

// classes are the lines of the table.
var classes = []string{products, attention, head, elementwise, copies, optimizer, allocation, golang, idle, other}

// operations have the names of each class. Names of libtorch stand without "aten::", and without the trailing _ of
// those that write to their input.
var operations = map[string]string{
	products: `
		addmm baddbmm bmm einsum linear matmul mm mv popri::encode popri::low_rank
		popri::low_rank_grad popri::low_rank_sums popri::product`,
	attention: `
		masked_fill scaled_dot_product_attention _scaled_dot_product_flash_attention _softmax softmax
		_softmax_backward_data tril popri::attend popri::attend_texts popri::attend_train
		popri::attend_train_grad popri::prefill popri::softmax
		popri::softmax_grad popri::split_heads popri::split_heads_grad`,
	head: `
		amax amin cumsum gather isfinite _log_softmax _log_softmax_backward_data logsumexp sort popri::draw
		popri::exp popri::logprobs popri::logprobs_grad popri::sample`,
	elementwise: `
		abs add bernoulli cos div eq exp gelu gelu_backward gt layer_norm log mean mul native_layer_norm
		native_layer_norm_backward ne neg pow relu result_type rsqrt sigmoid silu silu_backward sin sqrt
		square sub sum tanh tanh_backward threshold_backward where popri::add popri::layernorm
		popri::layernorm_grad popri::add_gelu popri::add_layernorm popri::not_finite popri::rmsnorm
		popri::rmsnorm_grad popri::rotate popri::swiglu popri::swiglu_grad popri::gelu popri::gelu_grad popri::drop`,
	copies: `
		alias arange as_strided cat chunk clone contiguous copy detach embedding embedding_backward
		embedding_dense_backward expand expand_as fill full index_add index_copy index_put _index_put_impl
		index_select index_select_backward is_nonzero item lift_fresh _local_scalar_dense narrow
		narrow_backward new_zeros ones_like permute reshape _reshape_alias resolve_conj resolve_neg
		scalar_tensor scatter scatter_add select select_backward set_requires_grad slice slice_backward
		split squeeze t to _to_copy transpose unbind _unsafe_view unsqueeze view zero zeros zeros_like
		popri::pack`,
	optimizer:  "popri::adamw popri::sum_squares",
	allocation: "empty empty_like empty_strided free new_empty new_empty_strided resize resize_as",
	golang:     tensor.GoName,
}

var classOf = func() map[string]string {
	of := map[string]string{}
	for class, names := range operations {
		for _, name := range strings.Fields(names) {
			of[name] = class
		}
	}
	return of
}()

// regions are the classes of the products and elementwise operations in them.
var regions = map[tensor.Region]string{tensor.Attention: attention, tensor.Head: head, tensor.Training: optimizer}

// classify returns the class of an operation. Products and elementwise operations within attention, head or training
// count there; unknown names are other operations, wherever they occur.
func classify(o tensor.Operation) string {
	name := strings.TrimPrefix(o.Name, "aten::")
	class, known := classOf[name]
	if !known {
		class, known = classOf[strings.TrimSuffix(name, "_")]
	}
	region := regions[o.Region]
	switch {
	case !known:
		return other
	case region != "" && (class == products || class == elementwise):
		return region
	}
	return class
}

// newProfile makes the table of the recorded operations, for the given seconds and threads.
func newProfile(recorded []tensor.Operation, seconds float64, threads int) *Profile {
	p := &Profile{Whole: seconds * float64(threads)}
	took := map[string]float64{}
	busy := 0.0
	for _, o := range recorded {
		class := classify(o)
		took[class] += o.Seconds
		busy += o.Seconds
		i := slices.IndexFunc(p.Operations, func(q Operation) bool { return q.Name == o.Name && q.Class == class })
		if i < 0 {
			i = len(p.Operations)
			p.Operations = append(p.Operations, Operation{Name: o.Name, Class: class})
		}
		p.Operations[i].Seconds += o.Seconds
		p.Operations[i].Calls += o.Calls
	}
	slices.SortStableFunc(p.Operations, func(a, b Operation) int { return cmp.Compare(b.Seconds, a.Seconds) })
	took[idle] = p.Whole - busy
	for _, class := range classes {
		p.Lines = append(p.Lines, Line{Class: class, Seconds: took[class], Share: took[class] / p.Whole})
	}
	return p
}

// processorTime is what all threads of the process have used.
func processorTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// ProductRate is how many floating-point operations a second all threads do in large matrix products. Each thread does
// products of its own, as most of the work is done: on a machine that is busy, threads that share a product would wait
// for each other, and the rate would be lower than the work's. A product is done when a value of it has been read,
// because a GPU still computes after the call has returned. The products of a GPU are begun by as many threads as work
// has ([tensor.AtOnce]).
func ProductRate(d tensor.DType) (float64, error) {
	const least = 300 * time.Millisecond
	side := int64(1024)
	if tensor.DefaultDevice() != tensor.CPU {
		side = 8192 // a smaller product takes a GPU less time than to begin it and to read a value
	}
	rates := make([]float64, tensor.AtOnce())
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
