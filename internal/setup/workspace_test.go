package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program imports a package of popri that computes with libtorch, and one that does not.
const program = `package main

import (
	"fmt"

	"popri/accountant"
	"popri/model/tensor"
)

func main() {
	err := tensor.Run(func(s *tensor.Scope) error {
		x := s.FromFloat32([]float32{1, 2, 3, 4}, 2, 2)
		fmt.Println(s.Float32s(s.MatMul(x, x)))
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(accountant.Replace)
}
`

// command runs the go tool in a folder, without the variables by which these tests may run themselves.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Another module imports popri's packages after one command, which may be repeated and keeps what its workspace held.
func TestJoinWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	gotch := command(t, root, "list", "-m", "-f", "{{.Dir}}", gotchModule)
	outside := t.TempDir()
	dir, other := filepath.Join(outside, "mine"), filepath.Join(outside, "other")
	for _, at := range []string{dir, other} {
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		command(t, at, "mod", "init", "example.org/"+filepath.Base(at)) // states the version of this Go, which may be newer than popri's
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := joinWorkspace(dir, root, gotch); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "work", "use", other)
	if err := joinWorkspace(dir, root, gotch); err != nil {
		t.Fatal(err)
	}
	if out := command(t, dir, "run", "."); out != "[7 10 15 22]\nreplace" {
		t.Errorf("the program prints %q", out)
	}
	workspace, err := os.ReadFile(filepath.Join(dir, "go.work"))
	for _, want := range []string{other, root, gotchModule + " " + gotchVersion + " => " + gotch} {
		if err != nil || strings.Count(string(workspace), want) != 1 {
			t.Errorf("%v: %q is not once in\n%s", err, want, workspace)
		}
	}

	var p problem
	if err := joinWorkspace(outside, root, gotch); !errors.As(err, &p) || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("a folder without go.mod: %v", err)
	}
	if err := joinWorkspace(root, root, gotch); !errors.As(err, &p) || !strings.Contains(err.Error(), root) {
		t.Errorf("popri itself: %v", err)
	}
}
