package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
)

// writeWorkspace writes popri's own go.work, only when it changes, so that Go's caches stay valid.
func writeWorkspace(root, gotch string) error {
	text := fmt.Sprintf("go 1.26.0\n\nuse .\n\nreplace %s %s => %s\n", gotchModule, gotchVersion, gotch)
	path := filepath.Join(root, "go.work")
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	return atomicfile.WriteBytes(path, []byte(text))
}

// joinWorkspace lets the module in a folder import the packages of popri in root: it adds both, and popri's copy of
// gotch, to the workspace of that folder, or makes one in it. What else the workspace holds stays.
func joinWorkspace(module, root, gotch string) error {
	dir, err := filepath.Abs(module)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return problem{fmt.Sprintf("-module %s: there is no go.mod", module),
			"in that folder: go mod init example.org/NAME"}
	}
	work := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%s: go %s: %w", dir, strings.Join(args, " "), describe(err))
		}
		return strings.TrimSpace(string(out)), nil
	}
	path, err := work("env", "GOWORK")
	if err != nil {
		return err
	}
	switch {
	case path == "off":
		return problem{"GOWORK is off", "unset GOWORK: popri's bindings to libtorch are found by a go.work"}
	case path == filepath.Join(root, "go.work"):
		return problem{fmt.Sprintf("-module %s lies in the folder of popri", module), "move it out of " + root}
	case path == "":
		if _, err := work("work", "init"); err != nil {
			return err
		}
		path = filepath.Join(dir, "go.work")
	}
	if _, err := work("work", "use", dir, root); err != nil {
		return err
	}
	replace := fmt.Sprintf("-replace=%s@%s=%s", gotchModule, gotchVersion, gotch)
	if _, err := work("work", "edit", replace); err != nil {
		return err
	}
	step("module", "%s can import popri's packages (%s)", dir, path)
	return nil
}
