package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"popri/internal/filelock"
	"popri/internal/version"
)

// The wheel that gotch v0.9.1 is written for. The checksum is PyPI's.
const (
	wheelVersion = "2.1.2"
	wheelSHA256  = "a6ebbe517097ef289cc7952783588c72de071d4b15ce0f8b285093f0916b1162"
	wheelNeeds   = 1800 << 20 // free bytes needed while wheel and libraries are both on disk
)

type libtorch struct {
	dir     string // holds lib and include
	version string
}

func (t libtorch) lib() string { return filepath.Join(t.dir, "lib") }

// cxx11 reports whether the libraries were built with the C++11 ABI of the GNU library. The name of a function with a
// std::string argument decides, because weak symbols of the standard library occur in both kinds.
func (t libtorch) cxx11() (bool, error) {
	f, err := elf.Open(filepath.Join(t.lib(), "libc10.so"))
	if err != nil {
		return false, err
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return false, err
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && strings.Contains(s.Name, "torchCheckFail") && strings.Contains(s.Name, "__cxx11") {
			return true, nil
		}
	}
	return false, nil
}

// findTorch takes, in this order, $LIBTORCH, an installed Python torch ($LIBTORCH_USE_PYTORCH=1), the cached wheel, and
// the wheel from PyPI.
func findTorch(cache string) (libtorch, error) {
	if dir := os.Getenv("LIBTORCH"); dir != "" {
		return existing(dir, "LIBTORCH")
	}
	if os.Getenv("LIBTORCH_USE_PYTORCH") == "1" {
		out, err := exec.Command("python3", "-c", "import torch; print(torch.__path__[0])").Output()
		if err != nil {
			return libtorch{}, problem{"LIBTORCH_USE_PYTORCH=1, but Python cannot import torch: " +
				describe(err).Error(), "pip install torch==" + wheelVersion + ", or unset LIBTORCH_USE_PYTORCH"}
		}
		return existing(strings.TrimSpace(string(out)), "LIBTORCH_USE_PYTORCH")
	}
	dir := filepath.Join(cache, "libtorch-"+wheelVersion+"-cpu")
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return libtorch{dir: dir, version: wheelVersion}, nil
	}
	if err := fetchWheel(cache, dir); err != nil {
		return libtorch{}, fmt.Errorf("%w\n       Or point LIBTORCH at an unpacked libtorch, or set LIBTORCH_USE_PYTORCH=1 for "+
			"an installed Python torch", err)
	}
	return libtorch{dir: dir, version: wheelVersion}, nil
}

func existing(dir, variable string) (libtorch, error) {
	for _, need := range []string{"lib/libtorch_cpu.so", "lib/libc10.so",
		"include/torch/csrc/api/include/torch/torch.h"} {
		if _, err := os.Stat(filepath.Join(dir, need)); err != nil {
			return libtorch{}, problem{fmt.Sprintf("%s: %s has no %s", variable, dir, need),
				"it must be an unpacked libtorch: a folder with lib/ and include/"}
		}
	}
	abs, err := filepath.Abs(dir)
	return libtorch{dir: abs, version: cmp.Or(version.OfLibtorch(dir), "of unknown version")}, err
}

// fetchWheel downloads the wheel through pip, checks it, and keeps its CPU part in dir. It works in a folder next to
// dir and renames it at the end, so that an interrupted set-up leaves no partial result.
func fetchWheel(cache, dir string) error {
	if err := room(cache, wheelNeeds, "to unpack libtorch"); err != nil {
		return err
	}
	tmp, remove, err := filelock.TempFolder(cache, temporary)
	if err != nil {
		return err
	}
	defer remove()
	wheel, err := pip(tmp, "torch=="+wheelVersion, "670 MB", wheelSHA256, "--implementation", "cp", "--python-version",
		"3.11", "--abi", "cp311", "--platform", "manylinux1_x86_64")
	if err != nil {
		return err
	}
	step("unpack", "libtorch_cpu, libc10, libgomp and the headers")
	made := filepath.Join(tmp, "made")
	if _, err := unzip(wheel, made, func(name string) string {
		if !wanted.MatchString(name) {
			return ""
		}
		return strings.TrimPrefix(name, "torch/")
	}); err != nil {
		return err
	}
	if err := standIns(filepath.Join(made, "lib")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, "complete"), []byte(wheelSHA256+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(made, dir)
}

var wanted = regexp.MustCompile(`^torch/(lib/(libtorch_cpu\.so|libc10\.so|libgomp-[^/]+)|include/.+)$|^torch-[^/]+\.dist-info/(LICENSE|NOTICE)$`)

// standIns builds empty libraries under the names of the CUDA ones that libtorch_cpu.so is linked against but never
// needs on a machine without a GPU. Every function answers cudaErrorNoDevice (100).
func standIns(lib string) error {
	f, err := elf.Open(filepath.Join(lib, "libtorch_cpu.so"))
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	byLibrary := map[string][]string{}
	for _, s := range symbols {
		if strings.HasPrefix(s.Library, "libcu") {
			byLibrary[s.Library] = append(byLibrary[s.Library], s.Name)
		}
	}
	for library, names := range byLibrary {
		sort.Strings(names)
		var source strings.Builder
		for _, name := range names {
			if name == "cudaGetErrorString" {
				source.WriteString("const char* cudaGetErrorString(int code) { (void)code; return \"no CUDA in this libtorch\"; }\n")
				continue
			}
			fmt.Fprintf(&source, "int %s(void) { return 100; }\n", name)
		}
		base := filepath.Join(lib, library)
		if err := os.WriteFile(base+".c", []byte(source.String()), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(base+".map", []byte(library+" { global: *; };\n"), 0o644); err != nil {
			return err
		}
		out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-w", "-o", base, base+".c",
			"-Wl,-soname,"+library, "-Wl,--version-script,"+base+".map").CombinedOutput()
		if err != nil {
			return fmt.Errorf("building the stand-in %s: %w: %s", library, err, out)
		}
		os.Remove(base + ".c")
		os.Remove(base + ".map")
	}
	return nil
}
