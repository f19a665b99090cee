package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import (
	_ "embed"
	"fmt"
	"sync"
	"unsafe"
)

// Kernels for a GPU: kernels.cu has the arithmetic, gpu.c compiles and launches it.

//go:embed params.h
var gpuParams string

//go:embed kernels.cu
var gpuKernels string

// gpuPrelude is what NVRTC does not know without headers.
const gpuPrelude = `typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef unsigned short uint16_t;
typedef unsigned char uint8_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define WARP 32
typedef uint32_t word;
#define GPU_ENTRY extern "C" __global__
`

// emulated says that the CPU runs the kernels for a GPU, which is for tests.
var emulated = kernels == "cuda"

// gpuProblem compiles the kernels at the first call and says why they cannot be used, or nothing.
var gpuProblem = sync.OnceValue(func() string {
	source := C.CString(gpuPrelude + gpuParams + gpuKernels)
	defer C.free(unsafe.Pointer(source))
	if problem := C.popri_gpu_make(source); problem != nil {
		return C.GoString(problem)
	}
	return ""
})

// onGPU reports whether the kernels for a GPU are used.
func onGPU() bool { return emulated || !portable && DefaultDevice() != CPU && gpuProblem() == "" }

// gpuGeneration is the first number of the GPU's compute capability; 0 if it is not known.
func gpuGeneration() int {
	if emulated || !onGPU() {
		return 0
	}
	return int(C.popri_gpu_generation())
}

// GPUMemory returns how many bytes the GPU has; 0 without one, and if that is not known.
func GPUMemory() int64 {
	if emulated || !onGPU() {
		return 0
	}
	return int64(C.popri_gpu_memory())
}

// GPUUsed returns how many bytes of the GPU are taken, by this program and by others; 0 without one.
func GPUUsed() int64 {
	if emulated || !onGPU() {
		return 0
	}
	return int64(C.popri_gpu_used())
}

// Kernels that a GPU alone takes by their struct, and their names in a profile.
var (
	rotateKernel       = kernel{name: C.CString("popri::rotate"), gpu: C.GPU_rotate}
	attendStepKernel   = kernel{name: C.CString("popri::attend"), gpu: C.GPU_attend}
	logProbsKernel     = kernel{name: C.CString("popri::logprobs"), gpu: C.GPU_logprobs}
	logProbsGradKernel = kernel{name: C.CString("popri::logprobs_grad"), gpu: C.GPU_logprobs_grad}
	sampleKernel       = kernel{name: C.CString("popri::sample"), gpu: C.GPU_sample}
	adamWKernel        = kernel{name: C.CString("popri::adamw"), gpu: C.GPU_adamw}
	squaresKernel      = kernel{name: C.CString("popri::sum_squares"), gpu: C.GPU_squares}
)

// launch runs k on blocks of about as many threads as a row is wide. n is the number of rows.
func launch(k kernel, p unsafe.Pointer, n, blocks, width int64) {
	if blocks == 0 {
		return
	}
	if emulated {
		C.popri_gpu_emulate(k.name, k.gpu, p, C.int64_t(n), C.int64_t(blocks))
		return
	}
	threads := C.int(min(256, max(32, (width+31)/32*32))) // a multiple of a warp
	if code := C.popri_gpu_launch(k.name, k.gpu, p, C.int64_t(n), C.int64_t(blocks), threads); code != 0 {
		panic(&Error{Op: C.GoString(k.name), Text: fmt.Sprintf("on %d blocks: CUDA's error %d", blocks, code)})
	}
}
