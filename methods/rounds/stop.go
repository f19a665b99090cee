package rounds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/rundir"
)

// Stopped is the error of a run that ended after a round because the file [rundir.Stop] asked for it. It is also a
// context.Canceled: whatever treats an interruption in its own way treats this one so.
type Stopped struct{ Round int }

func (s Stopped) Error() string {
	return fmt.Sprintf("stopped after round %d, as the file %s asked", s.Round, rundir.Stop)
}

// Is reports that a stop is an interruption.
func (s Stopped) Is(target error) bool { return target == context.Canceled }

// dropRequest removes the request to stop.
func dropRequest(run string) error { return os.RemoveAll(filepath.Join(run, rundir.Stop)) }
