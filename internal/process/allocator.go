package process

// #cgo CFLAGS: -O3
// #include "allocator.h"
import "C"

import "popri/model/tensor"

// init replaces the memory allocator of the whole program by one that suits tensors.
//
// libtorch takes the memory of every tensor from posix_memalign and returns it with free. On Linux with glibc on
// x86-64, allocator.c defines posix_memalign, free and realloc, and the linker prefers these definitions to glibc's for
// everything in the program (it says how blocks are kept). On other glibc systems it only changes glibc's settings, and
// elsewhere it does nothing. Package tensor works without it, only slower: the kernel then clears fresh pages for most
// operations.
func init() {
	C.popri_keep_large_buffers()
	tensor.OnTrim(func() { C.popri_release_free_blocks() })
}
