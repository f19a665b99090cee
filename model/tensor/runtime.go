package tensor

// #cgo LDFLAGS: -ldl
// #define _GNU_SOURCE
// #include <dlfcn.h>
// #include <stdlib.h> // defines __GLIBC__
// #ifdef __GLIBC__
// #include <malloc.h>
// #endif
// #include "torch.h"
// #ifdef __GLIBC__
// static void trim(void) { malloc_trim(0); }
// #else
// static void trim(void) {}
// #endif
//
// // at::set_num_threads also changes process-wide settings of MKL and oneDNN, which other threads may be using. OpenMP's
// // own setting belongs to the calling thread, and MKL and oneDNN follow it. The function is looked up at run time because
// // the OpenMP library that comes with libtorch is not linked by name.
// static void (*omp_set)(int);
// static void thread_count(int n) {
//   at_get_num_threads(); // libtorch sets a thread's count at its first use; a later setting of ours stays
//   if (omp_set) omp_set(n);
//   popri_occupied(omp_set ? n : 1);
// }
// // oneDNN caches a kernel for each size of a product. Evicting one while another thread makes one failed in libtorch
// // 2.1.2, so the cache gets room for all sizes that occur. oneDNN reads the variable at its first use.
// static void keep_kernels(void) {
//   setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16384", 0);
//   setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0); // without it, cuBLAS's sums have no fixed order
// }
// static void find_openmp(void) { omp_set = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads"); }
import "C"

import (
	"runtime"
	"strconv"
	"sync/atomic"
)

var (
	threads atomic.Int32
	// processors is what the Go runtime may use at the start: fewer than the machine's CPUs where a container's quota says so.
	processors = runtime.GOMAXPROCS(0)
)

func init() {
	C.keep_kernels()
	C.find_openmp()
	threads.Store(int32(processors))
	set, known := map[string]C.int{"": C.KERNELS_AVX512, "off": C.KERNELS_AVX512, "cuda": C.KERNELS_AVX512,
		"avx2": C.KERNELS_AVX2, "plain": C.KERNELS_PLAIN}[kernels]
	if !known {
		panic("tensor: POPRI_KERNELS is " + strconv.Quote(kernels) + ", want avx2, plain, cuda or off")
	}
	taken = C.popri_take(set)
}

// SetThreads chooses, process-wide, the number of threads of an operation in [Run] and of tasks in [Parallel], and of
// goroutines that run at a time. n < 1 means one for each CPU that the process may use.
func SetThreads(n int) {
	if n < 1 {
		n = processors
	}
	threads.Store(int32(n))
	if n = min(n, processors); n != runtime.GOMAXPROCS(0) { // a call ends Go's following of the quota
		runtime.GOMAXPROCS(n)
	}
}

// Threads returns the number set by [SetThreads].
func Threads() int { return int(threads.Load()) }

// useThreads applies the count to the current thread: OpenMP keeps it per thread.
func useThreads(count int) {
	C.thread_count(C.int(count))
}

var onTrim []func()

// OnTrim adds a function that [Trim] calls before the C library returns its free memory: an allocator that keeps freed
// blocks returns them there. It is for init functions.
func OnTrim(f func()) { onTrim = append(onTrim, f) }

// Trim returns memory that no tensor uses to the kernel. Callers use it between stages that need different amounts.
func Trim() {
	for _, f := range onTrim {
		f()
	}
	C.trim()
}
