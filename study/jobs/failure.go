package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"popri/internal/atomicfile"
)

// Failure is how the last attempt at a task ended, if it ended with an error.
type Failure struct {
	Error string `json:"error"`
	// Final says that another attempt would end in the same way: a mistake of the user's, or a budget that is spent.
	Final bool      `json:"final"`
	Host  string    `json:"host"`
	Time  time.Time `json:"time"`
}

func failurePath(state string, task int) string {
	return filepath.Join(state, "failed", fmt.Sprintf("%04d.json", task))
}

// Fail records how a task failed, in the array's folder of state; a nil error removes what an earlier attempt recorded.
func Fail(state string, task int, err error, final bool) error {
	path := failurePath(state, task)
	if err == nil {
		return os.RemoveAll(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	host, _ := os.Hostname()
	return atomicfile.WriteJSON(path, Failure{err.Error(), final, host, time.Now().UTC().Truncate(time.Second)})
}

// ReadFailure returns how a task failed, or nil.
func ReadFailure(state string, task int) (*Failure, error) {
	var f Failure
	there, err := atomicfile.ReadJSONIfAny(failurePath(state, task), &f)
	if !there {
		return nil, err
	}
	return &f, nil
}
