// Package testdeploy reads the files by which a federation is deployed, for the tests that compare them with the
// programs.
package testdeploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"gopkg.in/yaml.v3"
)

// Container is what a file says of one container.
type Container struct {
	Name, Image string
	Args        []string
	// Mounts are the paths that are there besides the image's.
	Mounts []string
	// Problems are rules that it breaks: it must not run as root, its root must be read-only, and it has limits; an
	// aggregator is asked for its health, at the port of its address.
	Problems []string
}

// Dir is the folder of the files.
func Dir() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", "fedsim", "deploy")
}

// Ports are the ports of the aggregators.
var Ports = map[string]string{"leader": "7401", "helper": "7402"}

// compose has the keys of a compose file that are used; others are mistakes.
type compose struct {
	Name       string             `yaml:"name"`
	Limits     any                `yaml:"x-limits"`
	Aggregator any                `yaml:"x-aggregator"`
	Client     any                `yaml:"x-client"`
	Services   map[string]service `yaml:"services"`
	Networks   map[string]any     `yaml:"networks"`
	Secrets    map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`
}

type service struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
		Target     string `yaml:"target"`
	} `yaml:"build"`
	User        string   `yaml:"user"`
	ReadOnly    bool     `yaml:"read_only"`
	Drop        []string `yaml:"cap_drop"`
	Security    []string `yaml:"security_opt"`
	Networks    []string `yaml:"networks"`
	Restart     string   `yaml:"restart"`
	Grace       string   `yaml:"stop_grace_period"`
	Memory      string   `yaml:"mem_limit"`
	CPUs        float64  `yaml:"cpus"`
	PIDs        int      `yaml:"pids_limit"`
	Command     []string `yaml:"command"`
	Ports       []string `yaml:"ports"`
	TemporaryFS []string `yaml:"tmpfs"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Volumes []struct {
		Type     string `yaml:"type"`
		Source   string `yaml:"source"`
		Target   string `yaml:"target"`
		ReadOnly bool   `yaml:"read_only"`
		Bind     struct {
			Create bool `yaml:"create_host_path"`
		} `yaml:"bind"`
	} `yaml:"volumes"`
	Secrets []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"secrets"`
	Health *struct {
		Test          []string `yaml:"test"`
		Interval      string   `yaml:"interval"`
		Timeout       string   `yaml:"timeout"`
		Retries       int      `yaml:"retries"`
		StartPeriod   string   `yaml:"start_period"`
		StartInterval string   `yaml:"start_interval"`
	} `yaml:"healthcheck"`
}

// Stages are the targets of the Containerfile, and whether each runs as another user than root.
func Stages() (map[string]bool, error) {
	content, err := os.ReadFile(filepath.Join(Dir(), "Containerfile"))
	if err != nil {
		return nil, err
	}
	stages, stage := map[string]bool{}, ""
	for line := range strings.Lines(string(content)) {
		if m := regexp.MustCompile(`^FROM \S+ AS (\S+)`).FindStringSubmatch(line); m != nil {
			stage = m[1]
			stages[stage] = false
		}
		if m := regexp.MustCompile(`^USER (\d+)`).FindStringSubmatch(line); m != nil {
			stages[stage] = m[1] != "0"
		}
	}
	return stages, nil
}

// Compose reads a compose file.
func Compose(content []byte) ([]Container, error) {
	var c compose
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	stages, err := Stages()
	if err != nil {
		return nil, err
	}
	var out []Container
	for name, s := range c.Services {
		k := Container{Name: name, Image: s.Image, Args: s.Command}
		problem := func(bad bool, format string, args ...any) {
			if bad {
				k.Problems = append(k.Problems, fmt.Sprintf(format, args...))
			}
		}
		problem(s.User == "" || regexp.MustCompile(`^(0|root)?(:|$)`).MatchString(s.User), "it runs as %q", s.User)
		problem(!s.ReadOnly || len(s.Drop) != 1 || s.Drop[0] != "ALL" || len(s.Security) == 0,
			"its root can be written, or it has capabilities")
		problem(s.Memory == "" || s.CPUs <= 0 || s.PIDs <= 0, "it has no limits")
		problem(!stages[s.Build.Target], "the Containerfile has no stage %q that runs as a user", s.Build.Target)
		_, err := os.Stat(filepath.Join(Dir(), s.Build.Context, s.Build.Dockerfile))
		problem(err != nil, "it is built from %v", err)
		for _, n := range s.Networks {
			_, known := c.Networks[n]
			problem(!known, "there is no network %q", n)
		}
		for other, d := range s.DependsOn {
			problem(c.Services[other].Health == nil || d.Condition != "service_healthy", "it waits for %q, %q", other, d.Condition)
		}
		for _, v := range s.Volumes {
			problem(v.Type != "bind" || v.Bind.Create, "the folder %s would be made by root", v.Source)
			k.Mounts = append(k.Mounts, v.Target)
		}
		k.Mounts = append(k.Mounts, s.TemporaryFS...)
		if len(s.Secrets) > 0 {
			k.Mounts = append(k.Mounts, "/run/secrets")
		}
		given := map[string]bool{}
		for _, secret := range s.Secrets {
			problem(c.Secrets[secret.Source].File == "", "there is no secret %q", secret.Source)
			given[filepath.Join("/run/secrets", secret.Target)] = true
		}
		for _, a := range s.Command {
			problem(strings.HasPrefix(a, "/run/secrets/") && !given[a], "no secret is at %s", a)
		}
		if port, ok := Ports[name]; ok {
			problem(s.Health == nil, "it is not asked for its health")
			problem(len(s.Ports) != 1 || s.Ports[0] != "127.0.0.1:"+port+":"+port, "it is reached at %q", s.Ports)
		}
		out = append(out, k)
		if s.Health != nil {
			if len(s.Health.Test) < 3 || s.Health.Test[0] != "CMD" || s.Health.Test[1] != "/"+s.Image {
				return nil, fmt.Errorf("%s: the health check is %q", name, s.Health.Test)
			}
			out = append(out, Container{Name: name + "'s health check", Image: s.Image, Args: s.Health.Test[2:], Mounts: k.Mounts})
		}
	}
	return out, nil
}

// object has the keys of Kubernetes' objects that are used; others are mistakes.
type object struct {
	Version  string   `yaml:"apiVersion"`
	Kind     string   `yaml:"kind"`
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		Selector    any    `yaml:"selector"`
		ClusterIP   string `yaml:"clusterIP"`
		Ports       []port `yaml:"ports"`
		ServiceName string `yaml:"serviceName"`
		Replicas    int    `yaml:"replicas"`
		Management  string `yaml:"podManagementPolicy"`
		Backoff     int    `yaml:"backoffLimit"`
		Template    struct {
			Metadata metadata `yaml:"metadata"`
			Spec     pod      `yaml:"spec"`
		} `yaml:"template"`
		Claims []struct {
			Metadata metadata `yaml:"metadata"`
			Spec     any      `yaml:"spec"`
		} `yaml:"volumeClaimTemplates"`
		Access    []string `yaml:"accessModes"`
		Resources any      `yaml:"resources"`
	} `yaml:"spec"`
}

type metadata struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type port struct {
	Name      string `yaml:"name"`
	Port      int    `yaml:"port"`
	Target    int    `yaml:"targetPort"`
	Container int    `yaml:"containerPort"`
}

type pod struct {
	Token    *bool  `yaml:"automountServiceAccountToken"`
	Grace    int    `yaml:"terminationGracePeriodSeconds"`
	Restart  string `yaml:"restartPolicy"`
	Security struct {
		NonRoot bool `yaml:"runAsNonRoot"`
		User    int  `yaml:"runAsUser"`
		Group   int  `yaml:"runAsGroup"`
		FSGroup int  `yaml:"fsGroup"`
		Seccomp struct {
			Type string `yaml:"type"`
		} `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []struct {
		Name      string   `yaml:"name"`
		Image     string   `yaml:"image"`
		Pull      string   `yaml:"imagePullPolicy"`
		Args      []string `yaml:"args"`
		Env       []any    `yaml:"env"`
		Ports     []port   `yaml:"ports"`
		Ready     *probe   `yaml:"readinessProbe"`
		Live      *probe   `yaml:"livenessProbe"`
		Resources struct {
			Requests map[string]string `yaml:"requests"`
			Limits   map[string]string `yaml:"limits"`
		} `yaml:"resources"`
		Security struct {
			Escalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
			Caps       struct {
				Drop []string `yaml:"drop"`
			} `yaml:"capabilities"`
		} `yaml:"securityContext"`
		Mounts []struct {
			Name     string `yaml:"name"`
			Path     string `yaml:"mountPath"`
			SubPath  string `yaml:"subPathExpr"`
			ReadOnly bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	} `yaml:"containers"`
	Volumes []struct {
		Name   string `yaml:"name"`
		Secret *struct {
			Name string `yaml:"secretName"`
			Mode int    `yaml:"defaultMode"`
		} `yaml:"secret"`
		Config *struct {
			Name string `yaml:"name"`
		} `yaml:"configMap"`
		Claim *struct {
			Name string `yaml:"claimName"`
		} `yaml:"persistentVolumeClaim"`
		Empty *struct{} `yaml:"emptyDir"`
	} `yaml:"volumes"`
}

type probe struct {
	Get struct {
		Path   string `yaml:"path"`
		Port   int    `yaml:"port"`
		Scheme string `yaml:"scheme"`
	} `yaml:"httpGet"`
	Period   int `yaml:"periodSeconds"`
	Timeout  int `yaml:"timeoutSeconds"`
	Failures int `yaml:"failureThreshold"`
}

// Kubernetes reads a manifest. secrets and configs are the names of those that it expects to be made before.
func Kubernetes(content []byte) (all []Container, secrets, configs []string, err error) {
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	services, claims := map[string]int{}, map[string]bool{}
	var workloads []object
	for {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, nil, err
		}
		switch o.Kind {
		case "Namespace":
		case "Service":
			for _, p := range o.Spec.Ports {
				services[o.Metadata.Name] = p.Port
			}
		case "PersistentVolumeClaim":
			claims[o.Metadata.Name] = true
		case "StatefulSet", "Job":
			workloads = append(workloads, o)
		default:
			return nil, nil, nil, fmt.Errorf("an object of the kind %q", o.Kind)
		}
	}
	for _, o := range workloads {
		p := o.Spec.Template.Spec
		if len(p.Containers) != 1 {
			return nil, nil, nil, fmt.Errorf("%s has %d containers, want 1", o.Metadata.Name, len(p.Containers))
		}
		c := p.Containers[0]
		k := Container{Name: o.Metadata.Name, Image: c.Image, Args: c.Args}
		problem := func(bad bool, format string, args ...any) {
			if bad {
				k.Problems = append(k.Problems, fmt.Sprintf(format, args...))
			}
		}
		s := p.Security
		problem(!s.NonRoot || s.User == 0 || s.Group == 0 || s.FSGroup == 0 || s.Seccomp.Type != "RuntimeDefault",
			"it runs as %+v", s)
		problem(!c.Security.ReadOnly || c.Security.Escalation == nil || *c.Security.Escalation ||
			len(c.Security.Caps.Drop) != 1 || c.Security.Caps.Drop[0] != "ALL", "its root can be written, or it has capabilities")
		problem(p.Token == nil || *p.Token, "it has the token of a service account")
		problem(c.Resources.Limits["cpu"] == "" || c.Resources.Limits["memory"] == "" || len(c.Resources.Requests) < 2,
			"it has no limits")
		problem(o.Metadata.Namespace == "", "it is in no namespace")
		volumes := map[string]bool{}
		for _, v := range o.Spec.Claims {
			volumes[v.Metadata.Name] = true
		}
		for _, v := range p.Volumes {
			volumes[v.Name] = true
			switch {
			case v.Secret != nil:
				secrets = append(secrets, v.Secret.Name)
				problem(v.Secret.Mode != 0o440, "the secret %s has the mode %04o", v.Secret.Name, v.Secret.Mode)
			case v.Config != nil:
				configs = append(configs, v.Config.Name)
			case v.Claim != nil:
				problem(!claims[v.Claim.Name], "nobody claims the volume %q", v.Claim.Name)
			}
		}
		for _, m := range c.Mounts {
			problem(!volumes[m.Name], "there is no volume %q", m.Name)
			k.Mounts = append(k.Mounts, m.Path)
		}
		if text, ok := Ports[k.Name]; ok {
			at := func(p *probe) bool {
				return p != nil && p.Get.Path == "/healthz" && p.Get.Scheme == "HTTPS" && fmt.Sprint(p.Get.Port) == text
			}
			problem(!at(c.Ready) || !at(c.Live), "it is not asked for its health at port %s", text)
			problem(len(c.Ports) != 1 || fmt.Sprint(c.Ports[0].Container) != text ||
				fmt.Sprint(services[k.Name]) != text, "it is reached at %v and %d", c.Ports, services[k.Name])
			problem(o.Spec.Replicas != 1, "its ledger has %d writers", o.Spec.Replicas)
		}
		all = append(all, k)
	}
	return all, secrets, configs, nil
}

// Missing returns a path among the arguments that no mount has; "" for none.
func (c Container) Missing() string {
	for _, a := range c.Args {
		if !strings.HasPrefix(a, "/") {
			continue
		}
		found := false
		for _, m := range c.Mounts {
			found = found || a == m || strings.HasPrefix(a, m+"/") || strings.HasPrefix(m, a+"/")
		}
		if !found {
			return a
		}
	}
	return ""
}
