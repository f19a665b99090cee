//go:build linux

package tensor

import (
	"runtime"
	"slices"
	"testing"

	"popri/testkit/testfile"
)

// This test's executable stands for any program that imports the package: it must keep the C library's allocator.
func TestLibraryKeepsTheAllocatorOfItsProgram(t *testing.T) {
	if defined := testfile.Defined(t, testfile.Allocator...); len(defined) > 0 {
		t.Errorf("a program with package tensor defines %q itself", defined)
	}
}

// MKL must find this package's answer, or it computes float32 at half speed on AMD processors with AVX-512.
func TestMKLAsksThisPackage(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("MKL is for x86-64")
	}
	want := []string{"mkl_serv_intel_cpu_true"}
	if defined := testfile.Defined(t, want...); !slices.Equal(defined, want) {
		t.Errorf("the executable defines %q, want %q", defined, want)
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
