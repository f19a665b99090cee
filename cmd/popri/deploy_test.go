package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testdeploy"
	"popri/testkit/testfile"
)

// The trainers of the compose file and of the manifest call popri as it is.
func TestDeployedTrainers(t *testing.T) {
	read := func(name string) []byte {
		return testfile.Read(t, filepath.Join(testdeploy.Dir(), name))
	}
	all, err := testdeploy.Compose(read("compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	more, _, _, err := testdeploy.Kubernetes(read("kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	trainers := 0
	for _, c := range append(all, more...) {
		if c.Image != "popri" {
			continue
		}
		trainers++
		line := "popri " + strings.Join(c.Args, " ")
		if err := checkCommand(line); err != nil {
			t.Errorf("%s: %s: %v", c.Name, line, err)
		}
		if checkCommand(strings.Replace(line, "--identity", "--identities", 1)) == nil {
			t.Error("a flag that there is not is not noticed")
		}
		if path := c.Missing(); path != "" || len(c.Problems) > 0 {
			t.Errorf("%s: nothing is mounted at %q; %q", c.Name, path, c.Problems)
		}
	}
	if trainers != 2 {
		t.Errorf("%d trainers", trainers)
	}
}
