package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"popri/internal/atomicfile"
)

// Array is a grid of tasks that differ in their number only.
type Array struct {
	// Name starts the names of all jobs: lower-case letters, digits and hyphens, 40 characters at most, as Kubernetes
	// demands. It is one folder's own, for Ray accepts a name once.
	Name string `json:"name"`
	// Program is the program, and Arguments are what precedes the number of a task.
	Program   string   `json:"program"`
	Arguments []string `json:"arguments"`
	// WorkDir is the folder in which tasks run and where relative paths begin. It, Program and State are absolute, and
	// the same on every machine.
	WorkDir string `json:"work_dir"`
	// State is the folder of what was submitted and how it ended, shared by all machines.
	State string `json:"state"`
	// Environment is what tasks need of the submitting process's environment.
	Environment map[string]string `json:"environment"`
	// Parallel is the largest number of tasks at a time; 0 leaves it to the engine.
	Parallel int `json:"parallel"`
	// Template replaces the engine's own; "" keeps that.
	Template string `json:"template"`
	// Values fill in the template.
	Values map[string]string `json:"values"`
}

// Submission is a set of tasks that an engine accepted together.
type Submission struct {
	Engine string    `json:"engine"`
	Serial int       `json:"serial"` // from 1 in the array
	ID     string    `json:"id"`     // the engine's
	Tasks  []int     `json:"tasks"`
	File   string    `json:"file"` // what was submitted: a file, or a folder of files
	Time   time.Time `json:"time"`
}

const submissionsFile = "submissions.json"

func (a Array) submissions() ([]Submission, error) {
	var list []Submission
	_, err := atomicfile.ReadJSONIfAny(filepath.Join(a.State, submissionsFile), &list)
	return list, err
}

// settingsFile keeps an array with its engine, for a follower that is not told them again.
const settingsFile = "array.json"

type settings struct {
	Engine string `json:"engine"`
	Array  Array  `json:"array"`
}

// Save keeps the array and its engine in the folder of state.
func (a Array) Save(engine string) error {
	return atomicfile.WriteJSON(filepath.Join(a.State, settingsFile), settings{engine, a})
}

// Saved reads what [Array.Save] kept; the engine is "" if it kept nothing.
func Saved(state string) (a Array, engine string, err error) {
	var s settings
	_, err = atomicfile.ReadJSONIfAny(filepath.Join(state, settingsFile), &s)
	return s.Array, s.Engine, err
}

// Logs is the folder of the tasks' logs.
func (a Array) Logs() string { return filepath.Join(a.State, "logs") }

// id names a submission.
func (a Array) id(serial int) string { return fmt.Sprintf("%s-%d", a.Name, serial) }

// Write writes the files of the next submission, without submitting them, and returns the submission, which has no ID.
func (a Array) Write(e Engine, tasks []int) (Submission, error) {
	before, err := a.submissions()
	if err != nil {
		return Submission{}, err
	}
	s := Submission{Engine: e.Name(), Serial: len(before) + 1, Tasks: tasks}
	files, err := e.Files(a, &s)
	if err != nil {
		return s, err
	}
	if err := os.MkdirAll(a.Logs(), 0o755); err != nil {
		return s, err
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return s, err
		}
		if err := atomicfile.WriteBytes(f.Path, f.Content); err != nil {
			return s, err
		}
	}
	return s, nil
}
