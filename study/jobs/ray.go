package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/internal/fault"
	"popri/internal/numeric"
)

// The variables that Ray's own command reads.
const (
	rayAddress = "RAY_API_SERVER_ADDRESS"
	rayCluster = "RAY_ADDRESS"
	rayHeaders = "RAY_JOB_HEADERS" // a JSON object, for instance with an Authorization
)

// Ray submits a job for each task by the REST interface of Ray Jobs.
type Ray struct {
	// Address begins the requests' URLs.
	Address string
	Headers map[string]string
	Client  *http.Client
}

// newRay takes the cluster's address and headers from the variables that Ray's own command reads.
func newRay() (*Ray, error) {
	r := &Ray{Address: os.Getenv(rayAddress), Client: &http.Client{Timeout: time.Minute}}
	if cluster := os.Getenv(rayCluster); r.Address == "" && strings.HasPrefix(cluster, "http") {
		r.Address = cluster
	}
	r.Address = strings.TrimSuffix(cmp.Or(r.Address, "http://127.0.0.1:8265"), "/")
	if u, err := url.Parse(r.Address); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault.Userf("%s is %q, want an address such as http://head:8265", rayAddress, r.Address)
	}
	if text := os.Getenv(rayHeaders); text != "" {
		if err := json.Unmarshal([]byte(text), &r.Headers); err != nil {
			return nil, fault.Userf("%s is no JSON object of texts: %w", rayHeaders, err)
		}
	}
	return r, nil
}

// Name implements Engine.
func (*Ray) Name() string { return "ray" }

// Files implements Engine: a folder with the request of each task.
func (r *Ray) Files(a Array, s *Submission) ([]File, error) {
	s.File = filepath.Join(a.State, fmt.Sprintf("%04d.ray", s.Serial))
	var files []File
	for _, task := range s.Tasks {
		text, err := a.render(r.Name(), fields{Array: a, ID: a.id(s.Serial), Tasks: s.Tasks, Task: task})
		if err != nil {
			return nil, err
		}
		var request map[string]any
		if err := json.Unmarshal(text, &request); err != nil {
			return nil, fault.Userf("the template for ray gives no JSON object: %w", err)
		}
		// Ray refuses a name that it knows, so a request that is repeated starts nothing twice.
		request["submission_id"] = rayID(a.id(s.Serial), task)
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(request); err != nil {
			return nil, err
		}
		files = append(files, File{filepath.Join(s.File, fmt.Sprintf("%04d.json", task)), b.Bytes()})
	}
	return files, nil
}

func rayID(submission string, task int) string { return fmt.Sprintf("%s-%d", submission, task) }

// Submit implements Engine.
func (r *Ray) Submit(ctx context.Context, s *Submission) error {
	for i, task := range s.Tasks {
		id, err := r.submit(ctx, filepath.Join(s.File, fmt.Sprintf("%04d.json", task)), task)
		if err != nil {
			s.Tasks = s.Tasks[:i] // those were accepted
			return fmt.Errorf("task %d: %w", task, err)
		}
		s.ID = id
	}
	return nil
}

func (r *Ray) submit(ctx context.Context, file string, task int) (id string, err error) {
	request, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var answer struct {
		ID string `json:"submission_id"`
	}
	if err := r.call(ctx, http.MethodPost, "/api/jobs/", request, &answer); err != nil {
		return "", err
	}
	id, ok := strings.CutSuffix(answer.ID, fmt.Sprintf("-%d", task))
	if !ok {
		return "", fmt.Errorf("Ray calls the job %q, which is not the name it was given", answer.ID)
	}
	return id, nil
}

// Live implements Engine.
func (r *Ray) Live(ctx context.Context, s Submission) (map[int]string, error) {
	var list []struct {
		ID     *string `json:"submission_id"` // none for jobs that were not submitted in this way
		Status string  `json:"status"`
	}
	if err := r.call(ctx, http.MethodGet, "/api/jobs/", nil, &list); err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, job := range list {
		if job.ID != nil && (job.Status == "PENDING" || job.Status == "RUNNING") {
			states[*job.ID] = strings.ToLower(job.Status)
		}
	}
	live := map[int]string{}
	for _, task := range s.Tasks {
		if state, ok := states[rayID(s.ID, task)]; ok {
			live[task] = state
		}
	}
	return live, nil
}

// mostAnswer bounds an answer of Ray's, in bytes.
const mostAnswer = 64 << 20

func (r *Ray) call(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, r.Address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	for key, value := range r.Headers {
		request.Header.Set(key, value)
	}
	response, err := r.Client.Do(request)
	if err != nil {
		return fmt.Errorf("Ray at %s (%s) does not answer: %w", r.Address, rayAddress, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("%s %s%s: %w", method, r.Address, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s%s: %s: %s", method, r.Address, path, response.Status, lastWords(string(content)))
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s %s%s: %w", method, r.Address, path, err)
	}
	return nil
}

// lastWords is what an answer with an error comes down to: Ray sends the trace of a Python program, whose reason is its
// last line.
func lastWords(text string) string {
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if line = strings.TrimSpace(line); len(line) > 1 {
			return line[:min(len(line), 500)]
		}
	}
	return ""
}

// Cancel implements Engine.
func (*Ray) Cancel(s Submission) string {
	stops := numeric.Map(s.Tasks, func(task int) string { return "ray job stop " + rayID(s.ID, task) })
	return strings.Join(stops, "; ")
}

// Log implements Engine.
func (*Ray) Log(_ Array, s Submission, task int) string { return "ray job logs " + rayID(s.ID, task) }
