package tensor

import "golang.org/x/sys/cpu"

// FastBFloat16 reports whether products of bfloat16 matrices are faster than those of float32 here: the CPU has
// AVX-512 BF16 or AMX, or the device is a GPU.
func FastBFloat16() bool {
	return DefaultDevice() != CPU || cpu.X86.HasAVX512BF16 || cpu.X86.HasAMXBF16
}
