package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/fedsim/aggregate/identity"
	"popri/testkit/testdeploy"
	"popri/testkit/testfile"
)

// checked returns what is wrong with a container of this program: a verb or a flag that there is not, a flag that is
// missing, a path that is not mounted, a rule that it breaks.
func checked(c testdeploy.Container) error {
	cmd, rest, err := command(new(bool)).Find(c.Args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if cmd.Name() == "answer" {
		for _, name := range []string{"federation", "key", "texts", "epsilon", "delta", "yes", "record"} {
			if !cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is not given", name)
			}
		}
	}
	if path := c.Missing(); path != "" {
		return fmt.Errorf("nothing is mounted at %s", path)
	}
	if len(c.Problems) > 0 {
		return fmt.Errorf("%s", strings.Join(c.Problems, "; "))
	}
	return nil
}

func deployed(t *testing.T, name string) []byte {
	t.Helper()
	return testfile.Read(t, filepath.Join(testdeploy.Dir(), name))
}

// both reads the compose file and the manifest.
func both(compose, manifest []byte) ([]testdeploy.Container, error) {
	all, err := testdeploy.Compose(compose)
	if err != nil {
		return nil, fmt.Errorf("compose.yaml: %w", err)
	}
	more, _, _, err := testdeploy.Kubernetes(manifest)
	if err != nil {
		return nil, fmt.Errorf("kubernetes.yaml: %w", err)
	}
	return append(all, more...), nil
}

// TestDeployment: the containers of the compose file and of the manifest call this program as it is, with limits and
// not as root.
func TestDeployment(t *testing.T) {
	compose, manifest := deployed(t, "compose.yaml"), deployed(t, "kubernetes.yaml")
	all, err := both(compose, manifest)
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, c := range all {
		if c.Image != "popri-client" {
			continue
		}
		own++
		if err := checked(c); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if own != 2+2+10+3 { // compose: aggregators and their health checks, clients; manifest: aggregators, clients
		t.Errorf("%d containers of popri-client", own)
	}
	// What the tests would find.
	for _, change := range [][2]string{
		{"--enrolled", "--enroled"}, {"aggregate, helper,", "aggregate, helpers,"}, {"--delta,", "--epsilon,"},
		{`"7",`, `"much",`}, {"--state, /state", "--state, /elsewhere"}, {"read_only: true", "read_only: false"},
		{"restart: unless-stopped", "restarts: unless-stopped"}, {"mem_limit: 512m", "mem_limit: ''"},
		{"source: leader-seal", "source: leader-seals"}, {"target: client}", "target: clients}"},
		{"federation.json, helper]", "federation.json, trainer, helper]"},
		{"create_host_path: false", "create_host_path: true"}, {"runAsNonRoot: true", "runAsNonRoot: false"},
		{"path: /healthz", "path: /health"}, {"defaultMode: 0440", "defaultMode: 0444"}, {"--yes, --announced-encoder, ", ""},
		{"name: state, mountPath", "name: states, mountPath"}, {"limits: {cpu", "limit: {cpu"}, {"port: 7402, scheme",
			"port: 7401, scheme"},
		{"replicas: 1", "replicas: 2"}, {"healthcheck:", "healthchecks:"}, {`"127.0.0.1:7401:7401"`, `"7401:7401"`},
	} {
		found := false
		for k, content := range [][]byte{compose, manifest} {
			if !strings.Contains(string(content), change[0]) {
				continue
			}
			changed := [][]byte{compose, manifest}
			changed[k] = []byte(strings.ReplaceAll(string(content), change[0], change[1]))
			all, err := both(changed[0], changed[1])
			found = found || err != nil
			for _, c := range all {
				found = found || c.Image == "popri-client" && checked(c) != nil
			}
		}
		if !found {
			t.Errorf("%q in place of %q is not noticed", change[1], change[0])
		}
	}
}

// TestDeploymentFiles: the secrets of the compose file are files that "popri aggregate ca" makes, and
// docs/federation.md makes those that the manifest expects.
func TestDeploymentFiles(t *testing.T) {
	fed := filepath.Join(t.TempDir(), "fed")
	if _, _, err := run("", "aggregate", "ca", "--out", fed, "--clients", "10", "--leader", "https://leader:7401",
		"--helper",
		"https://helper:7402"); err != nil {
		t.Fatal(err)
	}
	compose := string(deployed(t, "compose.yaml"))
	n := 0
	for line := range strings.Lines(compose) {
		_, path, ok := strings.Cut(line, "{file: ./fed/")
		if !ok {
			continue
		}
		n++
		path, _, _ = strings.Cut(path, "}")
		if _, err := os.Stat(filepath.Join(fed, path)); err != nil {
			t.Error(err)
		}
	}
	if n != strings.Count(compose, "{file: ") || n < 10 {
		t.Errorf("%d secrets", n)
	}
	page := testfile.Read(t, filepath.Join(testdeploy.Dir(), "..", "..", "docs", "federation.md"))
	_, secrets, configs, err := testdeploy.Kubernetes(deployed(t, "kubernetes.yaml"))
	if err != nil || !slices.Contains(configs, "federation") {
		t.Fatal(configs, err)
	}
	for kind, names := range map[string][]string{"secret generic ": secrets, "configmap ": configs} {
		for _, name := range names {
			if !strings.Contains(string(page), "create "+kind+name+" ") {
				t.Errorf("docs/federation.md does not create the %s%s", kind, name)
			}
		}
	}
	f, err := identity.ReadFederation(filepath.Join(fed, identity.FederationFile))
	if err != nil || !strings.HasSuffix(f.Leader.URL, testdeploy.Ports["leader"]) || !strings.HasSuffix(f.Helper.URL,
		testdeploy.Ports["helper"]) {
		t.Errorf("%+v, %v", f, err)
	}
}
