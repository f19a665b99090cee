package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"popri/internal/fault"
)

// Engine runs tasks on a cluster.
type Engine interface {
	Name() string
	// Files renders what a submission consists of and sets its File.
	Files(a Array, s *Submission) ([]File, error)
	// Submit hands the written files over and sets the submission's ID. If it fails after it has set the ID, the
	// submission's tasks are those that were accepted.
	Submit(ctx context.Context, s *Submission) error
	// Live returns the tasks that wait or run, with the engine's word for it. A task that is missing has ended, however
	// it ended. An error says that the engine could not tell.
	Live(ctx context.Context, s Submission) (map[int]string, error)
	// Cancel is the command with which people end a submission's tasks.
	Cancel(s Submission) string
	// Log says where people read what a task printed.
	Log(a Array, s Submission, task int) string
}

// File is a file to be written.
type File struct {
	Path    string
	Content []byte
}

// Names lists the engines.
func Names() []string { return []string{"slurm", "ray", "kubernetes"} }

// New returns the engine of a name.
func New(name string) (Engine, error) {
	switch name {
	case "slurm":
		return Slurm{}, nil
	case "ray":
		return newRay()
	case "kubernetes":
		return Kubernetes{}, nil
	}
	return nil, fault.Userf("--on is %q, want one of %s", name, strings.Join(Names(), ", "))
}

// commandError is the error of a command that ran and failed.
type commandError struct {
	command, said string
	err           error
}

func (e *commandError) Error() string { return fmt.Sprintf("%s: %v: %s", e.command, e.err, e.said) }
func (e *commandError) Unwrap() error { return e.err }

// command runs a program of the engine and returns its standard output.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fault.Userf("%s is not in PATH: run the command where the cluster's own commands are", name)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", &commandError{name + " " + strings.Join(args, " "), strings.TrimSpace(said.String()), err}
	}
	return out.String(), nil
}

// said reports whether err is of a command that printed one of the texts.
func said(err error, texts ...string) bool {
	failed, ok := errors.AsType[*commandError](err)
	return ok && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(failed.said, text) })
}
