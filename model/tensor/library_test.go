//go:build linux

package tensor

import (
	"runtime"
	"slices"
	"testing"

	"popri/testkit/symbols"
)

// This test's executable stands for any program that imports the package: it must keep the C library's allocator.
func TestLibraryKeepsTheAllocatorOfItsProgram(t *testing.T) {
	defined, err := symbols.Defined(symbols.Allocator...)
	if err != nil {
		t.Fatal(err)
	}
	if len(defined) > 0 {
		t.Errorf("a program with package tensor defines %q itself", defined)
	}
}

// MKL must find this package's answer, or it computes float32 at half speed on AMD processors with AVX-512.
func TestMKLAsksThisPackage(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("MKL is for x86-64")
	}
	want := []string{"mkl_serv_intel_cpu_true"}
	if defined, err := symbols.Defined(want...); err != nil || !slices.Equal(defined, want) {
		t.Errorf("the executable defines %q (%v), want %q", defined, err, want)
	}
}

func TestTrimCallsWhatWasAdded(t *testing.T) {
	defer func(before []func()) { onTrim = before }(onTrim)
	calls := 0
	OnTrim(func() { calls++ })
	if Trim(); calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}
