package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"popri/internal/quote"
)

// Kubernetes submits an Indexed Job by kubectl, in kubectl's current context. The namespace is the manifest's.
type Kubernetes struct{}

// Name implements Engine.
func (Kubernetes) Name() string { return "kubernetes" }

// Files implements Engine: one manifest.
func (e Kubernetes) Files(a Array, s *Submission) ([]File, error) {
	return a.file(e.Name(), ".yaml", s)
}

// Submit implements Engine.
func (Kubernetes) Submit(ctx context.Context, s *Submission) error {
	out, err := command(ctx, "kubectl", "create", "--filename", s.File, "--output", "name")
	s.ID = strings.TrimSpace(out)
	return err
}

// jobStatus is the part of a Job that says which indexes have ended.
type jobStatus struct {
	Status struct {
		CompletedIndexes string `json:"completedIndexes"`
		FailedIndexes    string `json:"failedIndexes"`
		Conditions       []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// Live implements Engine. The Job does not tell which of its pods wait and which run.
func (Kubernetes) Live(ctx context.Context, s Submission) (map[int]string, error) {
	out, err := command(ctx, "kubectl", "get", "--filename", s.File, "--output", "json")
	if said(err, "(NotFound)") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var job jobStatus
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		return nil, fmt.Errorf("kubectl get --filename %s: %w", s.File, err)
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == "Complete" || c.Type == "Failed") && c.Status == "True" {
			return nil, nil
		}
	}
	live := map[int]string{}
	for _, task := range s.Tasks {
		live[task] = "active"
	}
	for _, ended := range []string{job.Status.CompletedIndexes, job.Status.FailedIndexes} {
		indexes, err := ranges(ended)
		if err != nil {
			return nil, fmt.Errorf("kubectl get --filename %s: %w", s.File, err)
		}
		for _, i := range indexes {
			if i < len(s.Tasks) {
				delete(live, s.Tasks[i])
			}
		}
	}
	return live, nil
}

// ranges reads numbers as a Job's status has them: "1,3-5,7".
func ranges(text string) (list []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, ok := strings.Cut(part, "-")
		if !ok {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to < from || to > 1e6 {
			return nil, fmt.Errorf("the indexes %q are no list such as 1,3-5", text)
		}
		for i := from; i <= to; i++ {
			list = append(list, i)
		}
	}
	return list, nil
}

// Cancel implements Engine.
func (Kubernetes) Cancel(s Submission) string {
	return "kubectl delete --filename " + quote.Shell(s.File)
}

// Log implements Engine.
func (Kubernetes) Log(a Array, s Submission, task int) string {
	return fmt.Sprintf("kubectl logs --selector "+
		"batch.kubernetes.io/job-name=%s,batch.kubernetes.io/job-completion-index=%d",
		a.id(s.Serial), slices.Index(s.Tasks, task))
}
