package testfile

import (
	"debug/elf"
	"os"
	"slices"
	"testing"
)

// Allocator are the functions of the C library that package process replaces.
var Allocator = []string{"free", "posix_memalign", "realloc"}

// Defined returns, in alphabetical order, which functions of names the running executable defines itself, so that its
// libraries call them. The file must be ELF.
func Defined(t testing.TB, names ...string) (defined []string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && slices.Contains(names, s.Name) {
			defined = append(defined, s.Name)
		}
	}
	slices.Sort(defined)
	return defined
}
