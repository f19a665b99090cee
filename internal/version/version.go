// Package version says which versions of the program and of libtorch run.
package version

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// Libtorch is the version of the loaded libtorch, as the name of its folder states it.
func Libtorch() string {
	maps, err := read("/proc/self/maps")
	if err != nil {
		return "unknown"
	}
	m := regexp.MustCompile(`(?m)\s(/.*)/libtorch_cpu\.so$`).FindSubmatch(maps)
	if m == nil {
		return "unknown"
	}
	dir := filepath.Dir(string(m[1]))
	if stated := OfLibtorch(dir); stated != "" {
		return stated
	}
	if v := regexp.MustCompile(`libtorch-([0-9.]+)`).FindStringSubmatch(dir); v != nil {
		return v[1]
	}
	return "unknown"
}

// OfLibtorch is the version that the files of a libtorch's folder state, "" if none does.
func OfLibtorch(dir string) string {
	if b, err := read(filepath.Join(dir, "build-version")); err == nil {
		return strings.TrimSpace(string(b))
	}
	b, _ := read(filepath.Join(dir, "version.py")) // Python's
	if v := regexp.MustCompile(`__version__ = '([^']+)'`).FindSubmatch(b); v != nil {
		return string(v[1])
	}
	return ""
}

// read reads a file, and once more where that fails for another reason than that it is not there: a version is noted in
// what a run writes, and should not depend on a read that failed by chance.
func read(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile(path)
	}
	return b, err
}

// Release is the version of the program; CHANGELOG.md says what is in it.
const Release = "0.4.0"

// Program is the release with the revision that the build recorded.
func Program() string {
	version := Release
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += "+" + s.Value[:min(12, len(s.Value))]
			}
			if s.Key == "vcs.modified" && s.Value == "true" {
				version += " (modified)"
			}
		}
	}
	return version
}
