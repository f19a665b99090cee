package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
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

// Another module imports popri's packages through a workspace, by the commands of docs/building.md.
func TestOtherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	gotch := command(t, root, "list", "-m", "-f", "{{.Dir}}", gotchModule)
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, "main.go"), program)
	command(t, dir, "mod", "init", "example.org/mine")
	command(t, dir, "work", "init", ".", root)
	command(t, dir, "work", "edit", "-replace="+gotchModule+"@"+gotchVersion+"="+gotch)
	if out := command(t, dir, "run", "."); out != "[7 10 15 22]\nreplace" {
		t.Errorf("the program prints %q", out)
	}
}
