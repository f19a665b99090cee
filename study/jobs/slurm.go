package jobs

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Slurm submits an array by sbatch and asks squeue about it.
type Slurm struct{}

// Name implements Engine.
func (Slurm) Name() string { return "slurm" }

// Files implements Engine: one script.
func (e Slurm) Files(a Array, s *Submission) ([]File, error) { return a.file(e.Name(), ".sbatch", s) }

// Submit implements Engine.
func (Slurm) Submit(ctx context.Context, s *Submission) error {
	out, err := command(ctx, "sbatch", "--parsable", s.File)
	if err != nil {
		return err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // the cluster's name may follow
	if _, err := strconv.Atoi(id); err != nil {
		return fmt.Errorf("sbatch --parsable %s printed %q, want the number of the job", s.File, out)
	}
	s.ID = id
	return nil
}

// Live implements Engine. squeue lists what waits, runs or ends, and forgets a job some minutes after its end.
func (Slurm) Live(ctx context.Context, s Submission) (map[int]string, error) {
	out, err := command(ctx, "squeue", "--noheader", "--array", "--jobs="+s.ID, "--format=%K %T %r")
	if said(err, "Invalid job id") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	live := map[int]string{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		task, err := strconv.Atoi(words[0])
		if err != nil {
			return nil, fmt.Errorf("squeue printed %q, want a task's number and its state", strings.TrimSpace(line))
		}
		live[task] = strings.ToLower(words[1])
		if words[1] == "PENDING" && len(words) > 2 {
			live[task] += " (" + strings.Join(words[2:], " ") + ")"
		}
	}
	return live, nil
}

// Cancel implements Engine.
func (Slurm) Cancel(s Submission) string { return "scancel " + s.ID }

// Log implements Engine.
func (Slurm) Log(a Array, s Submission, task int) string {
	return filepath.Join(a.Logs(), fmt.Sprintf("%s_%d.log", s.ID, task))
}
