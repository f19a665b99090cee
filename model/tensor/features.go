package tensor

import "golang.org/x/sys/cpu"

// FastBFloat16 reports whether products of bfloat16 matrices are faster than those of float32 here: the CPU has
// AVX-512 BF16 or AMX, or the device is a GPU of compute capability 8 (Ampere) or later.
func FastBFloat16() bool {
	if DefaultDevice() == CPU {
		return cpu.X86.HasAVX512BF16 || cpu.X86.HasAMXBF16
	}
	generation := gpuGeneration()
	return generation == 0 || generation >= 8
}
