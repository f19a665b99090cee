package trackers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
)

// tensorBoard writes an event file. Each process writes a new one that begins with the run's whole history, and removes
// the others. The alternative, a further file that begins where the last one was cut off, would need one step from
// which readers forget what the earlier files say, but updates and rounds are counted apart. It could also not add a
// point that a killed process did not get to write.
//
// The new file begins with a session start at step 0, at which a TensorBoard that is running forgets the file before.
type tensorBoard struct {
	file   *os.File
	failed bool // a torn record ends what readers see
}

// eventsMark is in the name of every event file: readers know them by it.
const eventsMark = "tfevents"

func openTensorBoard(run Run) (Tracker, error) {
	dir := filepath.Join(run.Dir, rundir.TensorBoard)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	old, err := fs.Glob(os.DirFS(dir), "*"+eventsMark+"*")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	path := filepath.Join(dir, eventFileName(now, old))
	file, err := writeEvents(path, records(run, now))
	if err != nil {
		return nil, err
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return &tensorBoard{file: file}, nil
}

// eventFileName is a name that sorts behind the others, since readers read files in the order of their names.
func eventFileName(now time.Time, old []string) string {
	second := now.Unix()
	for _, name := range old {
		var of int64
		if n, _ := fmt.Sscanf(name, "events.out."+eventsMark+".%d.", &of); n == 1 && of >= second {
			second = of + 1
		}
	}
	return fmt.Sprintf("events.out.%s.%010d.popri", eventsMark, second)
}

// temporaryEvents has no name that readers know, and one that a killed run's leftovers have. The next process writes over
// what a killed one left.
const temporaryEvents = atomicfile.TempPrefix + "tensorboard"

// writeEvents makes the file with its first records, which readers see all at once, and leaves it open.
func writeEvents(path string, records []byte) (*os.File, error) {
	temporary := filepath.Join(filepath.Dir(path), temporaryEvents)
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(records)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(temporary))
	}
	return file, nil
}

// records are the records of a run up to now.
func records(run Run, now time.Time) (out []byte) {
	var version, start message
	version.double(eventTime, seconds(now))
	version.text(eventVersion, "brain.Event:2")
	start.double(eventTime, seconds(now))
	var session message
	session.int(1, sessionStart)
	start.message(eventSession, session)
	out = appendRecord(appendRecord(out, version), start)
	fenced := "```yaml\n" + strings.TrimRight(string(run.YAML), "\n") + "\n```"
	out = appendRecord(out, textEvent("config", fenced, now))
	if len(run.Tags) > 0 {
		out = appendRecord(out, textEvent("run", table(run.Tags), now))
	}
	return append(out, pointRecords(run.History)...)
}

// Log implements Tracker.
func (t *tensorBoard) Log(points []Point) error {
	if t.failed {
		return nil
	}
	if _, err := t.file.Write(pointRecords(points)); err != nil {
		t.failed = true
		return err
	}
	return nil
}

// Close implements Tracker.
func (t *tensorBoard) Close(end End) error {
	var err error
	if !t.failed && end.Guarantee != "" {
		_, err = t.file.Write(appendRecord(nil, textEvent("guarantee", end.Guarantee, time.Now())))
	}
	return errors.Join(err, t.file.Sync(), t.file.Close())
}

func table(pairs []Pair) string {
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	for _, p := range pairs {
		fmt.Fprintf(&b, "| %s | %s |\n", p.Name, strings.ReplaceAll(p.Value, "|", `\|`))
	}
	return b.String()
}
