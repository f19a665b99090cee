// Package symbols lets tests check whether the running program has its own allocator.
package symbols

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
)

// allocator are the functions of the C library that package allocator replaces.
var allocator = []string{"free", "posix_memalign", "realloc"}

// Allocator returns, in alphabetical order, which of these functions the running executable defines itself. The file must
// be ELF.
func Allocator() ([]string, error) {
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
		if s.Section != elf.SHN_UNDEF && slices.Contains(allocator, s.Name) {
			defined = append(defined, s.Name)
		}
	}
	slices.Sort(defined)
	return defined, nil
}
