package tensor

// #include <dlfcn.h>
// #include <stdlib.h>
// #include "torch.h"
//
// static int intel(void) {
// #ifdef __x86_64__
// 	__builtin_cpu_init();
// 	return __builtin_cpu_is("intel");
// #else
// 	return 0;
// #endif
// }
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"

	"popri/internal/fault"
)

// Device is where a tensor is: -1 is the CPU, 0 and above are CUDA devices.
type Device int

// CPU is the default device.
const CPU Device = -1

func (d Device) String() string {
	if d < 0 {
		return "cpu"
	}
	return fmt.Sprintf("cuda:%d", int(d))
}

// Devices are the names that [SetDevice] takes.
var Devices = []string{"auto", "cpu", "cuda"}

// chosen is the device of later scopes. Looking for a GPU takes time, so it happens at the first scope.
var chosen = struct {
	sync.Mutex
	name  string
	found bool
	at    Device
	err   error
}{name: os.Getenv("POPRI_DEVICE")}

// SetDevice chooses where later scopes create tensors. Call it once, at start-up. cuda is the first GPU that libtorch
// sees (CUDA_VISIBLE_DEVICES decides), and is the user's mistake without one; auto is the device that POPRI_DEVICE in
// the environment names, else cuda if available, else cpu. Without a call it is POPRI_DEVICE, else cpu.
func SetDevice(name string) error {
	if environment := os.Getenv("POPRI_DEVICE"); name == "auto" && environment != "" {
		name = environment
	}
	chosen.Lock()
	chosen.name, chosen.found = name, false
	chosen.Unlock()
	if name == "auto" {
		return nil
	}
	_, err := device()
	return err
}

// device returns the device of new scopes.
func device() (Device, error) {
	chosen.Lock()
	defer chosen.Unlock()
	if !chosen.found {
		chosen.at, chosen.err = find(chosen.name, CUDALibrary(), CUDADevices)
		chosen.found = true
	}
	return chosen.at, chosen.err
}

func find(name string, library bool, devices func() int) (Device, error) {
	switch name {
	case "", "cpu":
		return CPU, nil
	case "auto", "cuda":
	default:
		return CPU, fault.Userf("the device %q: must be one of %s", name, strings.Join(Devices, ", "))
	}
	switch {
	case library && devices() > 0:
		C.popri_deterministic()
		return 0, nil
	case name == "auto":
		return CPU, nil
	case !library:
		return CPU, fault.Userf("the device %q: this program is built with a libtorch without CUDA; point LIBTORCH at one "+
			"with it and build again", name)
	}
	return CPU, fault.Userf("the device %q: libtorch has CUDA and sees no GPU: is there one (nvidia-smi), its driver new "+
		"enough, CUDA_VISIBLE_DEVICES not empty?", name)
}

// DefaultDevice is where new scopes create tensors.
func DefaultDevice() Device {
	d, _ := device()
	return d
}

// CUDALibrary reports whether this libtorch has CUDA.
func CUDALibrary() bool {
	name := C.CString("libtorch_cuda.so")
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_LAZY|C.RTLD_NOLOAD)
	if handle == nil {
		return false
	}
	C.dlclose(handle)
	return true
}

// CUDADevices returns the number of GPUs that libtorch can use.
func CUDADevices() int {
	if C.atc_cuda_is_available() == 0 {
		return 0
	}
	return int(C.atc_cuda_device_count())
}

// Synchronize waits until the GPU has done what was begun on it.
func Synchronize() {
	if d := DefaultDevice(); d != CPU {
		C.atc_synchronize(C.int64_t(d))
	}
}

// CuDNN reports whether libtorch can use cuDNN.
func CuDNN() bool { return C.atc_cudnn_is_available() != 0 }

// device is where t is.
func (t Tensor) device() Device { return Device(C.at_device(t.c)) }

// OnDevice reports whether what a GPU would compute is computed by libtorch's operations where the tensors are: with a
// GPU, and with POPRI_KERNELS=off or cuda.
func OnDevice() bool { return portable || emulated || DefaultDevice() != CPU }

// portable says that the kernels of this package must not be used.
var portable = kernels == "off"

// kernels is the value of POPRI_KERNELS: "off"; "avx2" or "plain" for the kernels of CPUs that have no more than AVX2
// with FMA, or neither; "cuda" for the kernels of a GPU, run by the CPU; or "" for the best that this CPU has.
var kernels = os.Getenv("POPRI_KERNELS")

// taken is the set of kernels, one of KERNELS_….
var taken C.int

// Kernels names the instructions that this package's own kernels use here, or says why libtorch's operations compute in
// their place.
func Kernels() string {
	switch {
	case onGPU():
		return "CUDA"
	case portable:
		return "none (POPRI_KERNELS=off)"
	case DefaultDevice() != CPU:
		return "none (" + gpuProblem() + ")"
	}
	return map[C.int]string{C.KERNELS_AVX512: "AVX-512", C.KERNELS_AVX2: "AVX2 and FMA",
		C.KERNELS_PLAIN: "of any CPU"}[taken]
}

// newest reports whether kernels for the newest CPUs may compute, where this one has their instructions.
func newest() bool { return kernels == "" && DefaultDevice() == CPU }

// native reports whether op may use the kernels of this package that read the CPU's memory. On a GPU, kernels.cu has
// the most of them; operations of libtorch replace the others and, if POPRI_KERNELS=off is in the environment, all of
// them (portable.go). Tensors on different devices are an error.
func (s *Scope) native(op string, ts ...Tensor) bool {
	devices := make([]Device, len(ts))
	for i, t := range ts {
		devices[i] = t.device()
	}
	if err := mixed(op, ts, devices); err != nil {
		panic(err)
	}
	return !s.portable && !s.gpu && devices[0] == CPU
}

// launches reports whether a GPU's kernels compute with t.
func (s *Scope) launches(t Tensor) bool {
	return s.gpu && !s.portable && (emulated || t.device() != CPU)
}

// fused reports whether op may use its kernel for where the tensors are, the CPU or a GPU.
func (s *Scope) fused(op string, ts ...Tensor) bool { return s.native(op, ts...) || s.launches(ts[0]) }

// mixed returns an error that names the first two tensors on different devices.
func mixed(op string, ts []Tensor, devices []Device) *Error {
	for i, d := range devices {
		if d != devices[0] {
			return &Error{Op: op, Shapes: []string{ts[0].describe(), ts[i].describe()},
				Text: fmt.Sprintf("argument 0 is on %v, argument %d on %v", devices[0], i, d)}
		}
	}
	return nil
}

// Arithmetic names what decides the rounding of the last bits of a result, besides types and sizes.
func Arithmetic() string {
	switch {
	case DefaultDevice() != CPU:
		return "cuda"
	case portable || emulated:
		return "libtorch"
	case MatrixUnit():
		return "cpu with matrix unit"
	}
	return "cpu with " + Kernels()
}

// Host returns the elements of t, a contiguous float32 tensor: its own memory if that is the CPU's, else a copy.
// [Tensor.Store] applies changes.
func (t Tensor) Host() []float32 {
	if !portable && !emulated && t.device() == CPU {
		return t.view32()
	}
	if t.DType() != Float32 {
		refuse("Host", "it is not float32", t)
	}
	out := make([]float32, t.NumElements())
	if len(out) > 0 {
		onThread("Host", t, func() {
			C.at_copy_data(t.c, unsafe.Pointer(unsafe.SliceData(out)), C.size_t(len(out)), 4)
		})
	}
	return out
}

// Store overwrites all elements of t, a float32 tensor of as many elements as there are values. If values is t's own
// memory, as [Tensor.Host] may return it, nothing is copied. No graph may need the former elements.
func (t Tensor) Store(values []float32) {
	if t.DType() != Float32 || t.NumElements() != int64(len(values)) {
		refuse("Store", fmt.Sprintf("%d float32 values do not fit", len(values)), t)
	}
	if len(values) == 0 || t.device() == CPU && C.at_data_ptr(t.c) == unsafe.Pointer(unsafe.SliceData(values)) {
		return
	}
	shape := t.Shape()
	onThread("Store", t, func() {
		dims, n := cdims(shape)
		before := C.at_grad_set_enabled(0)
		defer C.at_grad_set_enabled(before)
		if from := C.at_tensor_of_data(unsafe.Pointer(unsafe.SliceData(values)), dims, n, 4, C.int(Float32)); from != nil {
			C.at_copy_(t.c, from)
			C.at_free(from)
		}
	})
}

// FastBFloat16 reports whether products of bfloat16 matrices are faster than products of float32 ones here: the CPU has
// AMX, or is not Intel's and has AVX-512 BF16, or the device is a GPU of compute capability 8 (Ampere) or later. Vectors
// of Intel's CPUs multiply no more bfloat16 than float32 in a cycle, and the conversions come on top: without AMX, a
// round of SmolLM2 takes a quarter longer in bfloat16.
func FastBFloat16() bool {
	if DefaultDevice() == CPU {
		return cpu.X86.HasAMXBF16 || cpu.X86.HasAVX512BF16 && C.intel() == 0
	}
	generation := gpuGeneration()
	return generation == 0 || generation >= 8
}

// Portable reports whether libtorch's operations replace all kernels of this package (POPRI_KERNELS=off).
func Portable() bool { return portable }
