// Package symbols lets tests check which functions of the C library or of libtorch the running program replaces.
package symbols

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
)

// Allocator are the functions of the C library that package process replaces.
var Allocator = []string{"free", "posix_memalign", "realloc"}

// Defined returns, in alphabetical order, which functions of names the running executable defines itself, so that its
// libraries call them. The file must be ELF.
func Defined(names ...string) ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	all, err := f.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var defined []string
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && slices.Contains(names, s.Name) {
			defined = append(defined, s.Name)
		}
	}
	slices.Sort(defined)
	return defined, nil
}
