package release

import "testing"

// TestFiles: the names of releases tell their parts, and no other name is taken for one.
func TestFiles(t *testing.T) {
	for _, part := range []int{0, 1, 42, 99999, 100000} {
		file, pending := Files(part)
		for name, drawn := range map[string]bool{file: false, pending: true} {
			if got, is, ok := PartOf(name); got != part || is != drawn || !ok {
				t.Errorf("%s is part %d, pending %v (%v)", name, got, is, ok)
			}
		}
	}
	for _, name := range []string{"release", "release-1.bin", "release-00001.bin.tmp", "release-.bin",
		"release--0001.bin", "samples.parquet", "release-00000.bin"} {
		if part, _, ok := PartOf(name); ok {
			t.Errorf("%s is taken for part %d", name, part)
		}
	}
}
