package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"popri/internal/filelock"
)

const gotchModule, gotchVersion = "github.com/sugarme/gotch", "v0.9.1"

// ours is compiled with the bindings, by which it finds libtorch's headers.
//
//go:embed libtch/*.cpp
var ours embed.FS

// prepareGotch copies the bindings out of the module cache (Go forbids changing them there) with cgo flags for the
// chosen libtorch. The copy's name holds a hash of everything that it depends on.
func prepareGotch(root, cache, cxx string, torch libtorch) (string, error) {
	flags, err := cgoFlags(torch)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", torch.lib(), err)
	}
	sources, err := ours.ReadDir("libtch")
	if err != nil {
		return "", err
	}
	files, hash := map[string]string{}, sha256.New()
	hash.Write([]byte(flags))
	for _, f := range sources {
		b, err := ours.ReadFile("libtch/" + f.Name())
		if err != nil {
			return "", err
		}
		files["libtch/"+f.Name()] = string(b)
		hash.Write(b)
	}
	sum := hash.Sum(nil)
	dir := filepath.Join(cache, "gotch-"+gotchVersion+"-"+hex.EncodeToString(sum[:4]))
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir, nil
	}
	cmd := exec.Command("go", "mod", "download", "-json", gotchModule+"@"+gotchVersion)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w: %s", gotchModule, describe(err), out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	work, remove, err := filelock.TempFolder(cache, temporary)
	if err != nil {
		return "", err
	}
	defer remove()
	tmp := filepath.Join(work, "made")
	// Only the raw bindings are used; the higher layers of gotch would add further dependencies.
	if err := os.CopyFS(filepath.Join(tmp, "libtch"), os.DirFS(filepath.Join(module.Dir, "libtch"))); err != nil {
		return "", err
	}
	files["go.mod"], files["libtch/lib.go"] = "module "+gotchModule+"\n\ngo 1.20\n", flags
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if base, _, _ := strings.Cut(torch.version, "+"); base != wheelVersion { // 2.1.2+cu121 has the same interface
		if err := stubMissing(filepath.Join(tmp, "libtch"), cxx, torch); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(tmp, "complete"), nil, 0o644); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

func includes(torch libtorch) []string {
	include := filepath.Join(torch.dir, "include")
	return []string{"-isystem", include, "-isystem", filepath.Join(include, "torch/csrc/api/include")}
}

func cgoFlags(torch libtorch) (string, error) {
	abi, err := torch.cxx11()
	if err != nil {
		return "", err
	}
	define := "-D_GLIBCXX_USE_CXX11_ABI=0"
	if abi {
		define = "-D_GLIBCXX_USE_CXX11_ABI=1"
	}
	link := "-ltorch_cpu -lc10 -lstdc++"
	if _, err := os.Stat(filepath.Join(torch.lib(), "libtorch_cuda.so")); err == nil {
		// Nothing calls the CUDA library by name: loading it registers its kernels.
		link = "-Wl,--no-as-needed -ltorch_cuda -lc10_cuda -Wl,--as-needed " + link
	}
	return fmt.Sprintf(`package libtch

// #cgo LDFLAGS: -L%[1]s -Wl,-rpath,%[1]s %[2]s
// #cgo CFLAGS: -I${SRCDIR} -O1 -w %[3]s
// #cgo CXXFLAGS: -std=c++17 -I${SRCDIR} -O1 -g0 -w %[3]s %[4]s
import "C"
`, torch.lib(), link, define, strings.Join(includes(torch), " ")), nil
}

var (
	refused  = regexp.MustCompile(`(?m)torch_api_generated\.cpp\.h:(\d+):\d+: error:`)
	function = regexp.MustCompile(`^(void|tensor \*|tensor|int|int64_t|double|bool|char \*)\s*\*?(atg?_\w+)\(`)
)

// stubMissing compiles the wrappers against a libtorch other than the one that gotch is written for. A wrapper that the
// compiler refuses gets a body that reports this when it is called.
func stubMissing(dir, cxx string, torch libtorch) error {
	path := filepath.Join(dir, "torch_api_generated.cpp.h")
	stubbed := 0
	for range 6 {
		args := append([]string{"-fsyntax-only", "-fmax-errors=0", "-std=c++17", "-w", "-I" + dir}, includes(torch)...)
		out, err := exec.Command(cxx, append(args, filepath.Join(dir, "torch_api.cpp"))...).CombinedOutput()
		if err == nil {
			if stubbed > 0 {
				step("gotch", "%d operations are not in libtorch %s and report so when called", stubbed, torch.version)
			}
			return nil
		}
		hits := refused.FindAllSubmatch(out, -1)
		if len(hits) == 0 {
			return fmt.Errorf("the bindings do not compile against libtorch %s: %s", torch.version, out[max(0, len(out)-1500):])
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.Split(string(b), "\n")
		bad := map[int]bool{}
		for _, hit := range hits {
			n, _ := strconv.Atoi(string(hit[1]))
			at := min(n-1, len(lines)-1)
			for at > 0 && !function.MatchString(lines[at]) {
				at--
			}
			bad[at] = true
		}
		for at := range bad {
			m := function.FindStringSubmatch(lines[at])
			if m == nil {
				continue
			}
			end := at + 1
			for end < len(lines) && lines[end] != "}" {
				lines[end] = ""
				end++
			}
			body := fmt.Sprintf(`  PROTECT(throw std::runtime_error("%s is not in this libtorch");)`, m[2])
			if !strings.HasPrefix(lines[at], "void ") {
				body += "\n  return 0;"
			}
			lines[at+1] = body
			stubbed++
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			return err
		}
	}
	return fmt.Errorf("the bindings do not compile against libtorch %s after stubbing %d wrappers", torch.version, stubbed)
}

// lock keeps two set-ups of the same user from working in the cache at once. The kernel releases it when the process
// ends.
func lock(cache string) (func(), error) {
	f, err := os.OpenFile(filepath.Join(cache, "setup.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, problem{"the cache folder cannot be written: " + err.Error(),
			"set POPRI_CACHE to a folder that you may write to"}
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		step("wait", "another set-up is at work in %s", cache)
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, err
		}
	}
	return func() { f.Close() }, nil
}
