package jobs

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/testkit/testfile"
)

// awkward is an array whose paths need quotes.
func awkward(t *testing.T) Array {
	t.Helper()
	work := testfile.Folder(t, filepath.Join(t.TempDir(), `it's a "folder" $HOME`))
	return Array{Name: "popri-test", Program: filepath.Join(work, "program"),
		Arguments: []string{"ablate", "--out", work, "--cell"}, WorkDir: work, State: filepath.Join(t.TempDir(),
			"jobs"), Environment: map[string]string{"A": "it's", "B": `"x" \`}}
}

// scripts puts programs into PATH, each with the body of a shell script.
func scripts(t *testing.T, bodies map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range bodies {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// A shell that runs the script of a task starts the program in its folder, with its arguments and variables as they
// are.
func TestScriptsSurviveAShell(t *testing.T) {
	a := awkward(t)
	report := "#!/bin/sh\nprintf '%s\\n' \"$PWD\" \"$A\" \"$B\" \"$@\"\n"
	if err := os.WriteFile(a.Program, []byte(report), 0o755); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{a.WorkDir, a.Environment["A"], a.Environment["B"], "ablate", "--out", a.WorkDir,
		"--cell", "3", ""}, "\n")

	s, err := a.Write(Slurm{}, []int{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", s.File)
	cmd.Env = append(os.Environ(), "SLURM_ARRAY_TASK_ID=3")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("%v: slurm's script ran %q, want %q", err, out, want)
	}

	s, err = a.Write(&Ray{}, []int{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	var request struct {
		Entrypoint string
		ID         string `json:"submission_id"`
		Env        struct {
			Vars map[string]string `json:"env_vars"`
		} `json:"runtime_env"`
	}
	if err := atomicfile.ReadJSON(filepath.Join(s.File, "0003.json"), &request); err != nil ||
		request.ID != "popri-test-1-3" {
		t.Fatalf("%v: %+v", err, request)
	}
	cmd = exec.Command("sh", "-c", request.Entrypoint)
	for key, value := range request.Env.Vars {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("%v: ray's entrypoint ran %q, want %q", err, out, want)
	}
}

func TestManifest(t *testing.T) {
	a := awkward(t)
	a.Values, a.Parallel = map[string]string{"claim": "shared", "gpus": "1", "program": "/bin/popri"}, 2
	s, err := a.Write(Kubernetes{}, []int{1, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	b := testfile.Read(t, s.File)
	var job struct {
		Metadata struct{ Name string }
		Spec     struct {
			CompletionMode           string `yaml:"completionMode"`
			Completions, Parallelism int
			Template                 struct {
				Spec struct {
					Containers []struct {
						Command, Args []string
						WorkingDir    string `yaml:"workingDir"`
						Env           []struct{ Name, Value string }
						Resources     struct{ Limits map[string]string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(b, &job); err != nil {
		t.Fatalf("%v:\n%s", err, b)
	}
	c := job.Spec.Template.Spec.Containers[0]
	if job.Metadata.Name != "popri-test-1" || job.Spec.CompletionMode != "Indexed" || job.Spec.Completions != 3 ||
		job.Spec.Parallelism != 2 || !slices.Equal(append(c.Command, c.Args...),
		append(append([]string{"/bin/popri"}, a.Arguments...), "1,3,4")) ||
		c.WorkingDir != a.WorkDir || c.Env[1].Value != a.Environment["B"] ||
		c.Resources.Limits["nvidia.com/gpu"] != "1" {
		t.Errorf("the manifest says %+v:\n%s", job, b)
	}
}

func TestTemplates(t *testing.T) {
	for _, engine := range Names() {
		text, err := Template(engine)
		if err != nil || text == "" {
			t.Fatalf("%s: %v", engine, err)
		}
		a := awkward(t)
		a.Values = map[string]string{"cpus": "2", "colour": "red"}
		if _, err := a.render(engine, fields{Array: a, Tasks: []int{0}}); !fault.IsUser(err) ||
			!strings.Contains(err.Error(), "--job colour=red") || !strings.Contains(err.Error(), "cpus, ") {
			t.Errorf("%s takes a value that it does not use: %v", engine, err)
		}
		a.Values = nil
		for _, bad := range []string{"{{", "{{.Nothing}}"} {
			a.Template = bad
			if _, err := a.render(engine, fields{Array: a}); !fault.IsUser(err) {
				t.Errorf("%s, template %q: %v", engine, bad, err)
			}
		}
	}
	a := awkward(t)
	a.Template = "no object"
	if _, err := a.Write(&Ray{}, []int{0}); !fault.IsUser(err) || !strings.Contains(err.Error(), "no JSON object") {
		t.Errorf("a request that is no JSON: %v", err)
	}
	if _, err := New("cron"); !fault.IsUser(err) || !strings.Contains(err.Error(), "slurm, ray, kubernetes") {
		t.Errorf("an unknown engine: %v", err)
	}
	if _, err := Template("cron"); !fault.IsUser(err) {
		t.Errorf("its template: %v", err)
	}
}

func TestSlurm(t *testing.T) {
	a := awkward(t)
	a.Parallel, a.Values = 2, map[string]string{"partition": "cpu"}
	s, err := a.Write(Slurm{}, []int{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(s.File)
	if err != nil || !strings.Contains(string(script), "#SBATCH --array=1,3%2\n") ||
		!strings.Contains(string(script), "\n#SBATCH --partition=cpu\n") {
		t.Errorf("%v: %s", err, script)
	}
	seen := filepath.Join(t.TempDir(), "seen")
	scripts(t, map[string]string{
		"sbatch": `echo "$@" > ` + seen + `; echo "17;cluster"`,
		"squeue": `[ "$3" = --jobs=17 ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
echo "1 RUNNING None"; echo "3 PENDING Nodes required for job are DOWN"`,
	})
	if err := (Slurm{}).Submit(t.Context(), &s); err != nil || s.ID != "17" {
		t.Fatalf("%v: %+v", err, s)
	}
	if b, err := os.ReadFile(seen); err != nil || string(b) != "--parsable "+s.File+"\n" {
		t.Errorf("%v: sbatch got %q", err, b)
	}
	want := map[int]string{1: "running", 3: "pending (Nodes required for job are DOWN)"}
	if live, err := (Slurm{}).Live(t.Context(), s); err != nil || !reflect.DeepEqual(live, want) {
		t.Errorf("%v: %v, want %v", err, live, want)
	}
	if live, err := (Slurm{}).Live(t.Context(), Submission{ID: "16"}); err != nil || len(live) != 0 {
		t.Errorf("a job that slurm has forgotten: %v, %v", live, err)
	}
	scripts(t, map[string]string{"sbatch": "echo 'sbatch: error: invalid partition' >&2; exit 1",
		"squeue": "echo 'Unable to contact slurm controller' >&2; exit 1"})
	if err := (Slurm{}).Submit(t.Context(), &s); err == nil || !strings.Contains(err.Error(), "invalid partition") {
		t.Errorf("a refusal: %v", err)
	}
	if _, err := (Slurm{}).Live(t.Context(), s); err == nil || !strings.Contains(err.Error(), "Unable to contact") {
		t.Errorf("no controller: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := (Slurm{}).Submit(t.Context(), &s); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "sbatch is not in PATH") {
		t.Errorf("without slurm: %v", err)
	}
}

func TestKubernetes(t *testing.T) {
	s := Submission{Serial: 1, Tasks: []int{2, 5, 7, 8, 9}, File: "job.yaml"}
	status := filepath.Join(t.TempDir(), "status")
	scripts(t, map[string]string{"kubectl": `case "$1" in
create) echo job.batch/popri-test-1;;
get) [ "$3" = job.yaml ] || { echo 'Error from server (NotFound): jobs.batch "x" not found' >&2; exit 1; }; cat ` + status + `;;
esac`})
	if err := (Kubernetes{}).Submit(t.Context(), &s); err != nil || s.ID != "job.batch/popri-test-1" {
		t.Fatalf("%v: %+v", err, s)
	}
	for text, want := range map[string]map[int]string{
		`{"status":{"active":2}}`: {2: "active",
			5: "active", 7: "active", 8: "active", 9: "active"},
		`{"status":{"completedIndexes":"0,2-3","failedIndexes":"4"}}`:                              {5: "active"},
		`{"status":{"completedIndexes":"0-4","conditions":[{"type":"Complete","status":"True"}]}}`: nil,
		`{"status":{"conditions":[{"type":"Failed","status":"True"}]}}`:                            nil,
	} {
		testfile.Write(t, status, text)
		if live, err := (Kubernetes{}).Live(t.Context(), s); err != nil || len(live) != len(want) ||
			len(want) > 0 && !reflect.DeepEqual(live, want) {
			t.Errorf("%s: %v, %v, want %v", text, live, err, want)
		}
	}
	if live, err := (Kubernetes{}).Live(t.Context(), Submission{File: "gone.yaml", Tasks: []int{1}}); err != nil ||
		len(live) != 0 {
		t.Errorf("a job that was deleted: %v, %v", live, err)
	}
}

func FuzzRanges(f *testing.F) {
	for _, seed := range []string{"", "0", "1,3-5,7", "5-3", "1-", "-1", "1,,2", "0-99999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ranges(text)
		if err == nil && slices.ContainsFunc(list, func(i int) bool { return i < 0 }) {
			t.Errorf("%q gives %v", text, list)
		}
	})
}
