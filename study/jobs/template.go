package jobs

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/quote"
)

//go:embed templates
var templates embed.FS

var templateFiles = map[string]string{"slurm": "slurm.sbatch", "ray": "ray.json", "kubernetes": "kubernetes.yaml"}

// Template returns an engine's own template, for people to edit.
func Template(engine string) (string, error) {
	name, ok := templateFiles[engine]
	if !ok {
		return "", fault.Userf("--on is %q, want one of %s", engine, strings.Join(Names(), ", "))
	}
	b, err := templates.ReadFile("templates/" + name)
	return string(b), err
}

// fields are what a template can use besides the array's own.
type fields struct {
	Array
	ID    string // of the submission
	Tasks []int  // of the submission
	Task  int    // the one that a file of Ray's is for
}

// List is the tasks between commas.
func (f fields) List() string { return strings.Join(numeric.Map(f.Tasks, strconv.Itoa), ",") }

// file is a submission of a single file.
func (a Array) file(engine, extension string, s *Submission) ([]File, error) {
	content, err := a.render(engine, fields{Array: a, ID: a.id(s.Serial), Tasks: s.Tasks})
	s.File = filepath.Join(a.State, fmt.Sprintf("%04d%s", s.Serial, extension))
	return []File{{s.File, content}}, err
}

// render fills in the array's template, or the engine's own. A value that the template does not ask for is an error: it
// would have no effect.
func (a Array) render(engine string, f fields) ([]byte, error) {
	text := a.Template
	if text == "" {
		var err error
		if text, err = Template(engine); err != nil {
			return nil, err
		}
	}
	asked := map[string]bool{}
	value := func(key, standard string) string {
		asked[key] = true
		if v, ok := a.Values[key]; ok {
			return v
		}
		return standard
	}
	t, err := template.New(engine).Option("missingkey=error").Funcs(template.FuncMap{
		"value": value,
		// The program and its arguments for a task, but for the task's number, which comes last.
		"command": func(program string) []string { return append([]string{value("program", program)}, a.Arguments...) },
		"shell": func(v any) string {
			if word, single := v.(string); single {
				return quote.Shell(word)
			}
			return quote.Shell(v.([]string)...)
		},
		"json": func(v any) (string, error) {
			var b bytes.Buffer
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			err := encoder.Encode(v)
			return strings.TrimSpace(b.String()), err
		},
	}).Parse(text)
	if err != nil {
		return nil, fault.Userf("the template for %s: %w", engine, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, f); err != nil {
		return nil, fault.Userf("the template for %s: %w", engine, err)
	}
	for _, key := range slices.Sorted(maps.Keys(a.Values)) {
		if !asked[key] {
			return nil, fault.Userf("--job %s=%s: the template for %s asks for no such value; it asks for %s", key,
				a.Values[key], engine, strings.Join(slices.Sorted(maps.Keys(asked)), ", "))
		}
	}
	return out.Bytes(), nil
}
