package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/filelock"
	"popri/internal/numeric"
)

// Follower submits the tasks of an array that are not done, and again those that are lost.
type Follower struct {
	Array  Array
	Engine Engine
	Tasks  []int
	// Done reports whether the result of a task is there.
	Done func(task int) (bool, error)
	// Attempts is how often a task is submitted at most, 1 or more. What earlier followers submitted does not count:
	// somebody has looked at it since.
	Attempts int
	Every    time.Duration // between two looks
	// Tell is called when the state of a task changes, Say with anything else that people should know.
	Tell func(task int, state string)
	Say  func(text string)

	lock     *filelock.Lock
	list     []Submission
	over     map[int]bool // by serial: no task of the submission lives
	done     map[int]bool
	attempts map[int]int
	gone     map[int]int // looks in a row that did not find the task
	failed   map[int]string
	told     map[int]string
	refusals int
}

// Open reads what was submitted before. Of two followers of one array, the second is refused.
func (f *Follower) Open() (err error) {
	f.over, f.done, f.attempts, f.gone = map[int]bool{}, map[int]bool{}, map[int]int{}, map[int]int{}
	f.failed, f.told = map[int]string{}, map[int]string{}
	if f.lock, err = filelock.Acquire(filepath.Join(f.Array.State, "submit.lock")); err == nil {
		f.list, err = f.Array.submissions()
	}
	return err
}

// Close lets another process follow.
func (f *Follower) Close() error { return f.lock.Release() }

// FailedError lists tasks that are not done and will not be submitted again.
type FailedError struct {
	Tasks map[int]string // with the reason
	Of    int
}

// Error names each task.
func (e *FailedError) Error() string {
	lines := numeric.Map(slices.Sorted(maps.Keys(e.Tasks)),
		func(task int) string { return fmt.Sprintf("task %d: %s", task, e.Tasks[task]) })
	return fmt.Sprintf("%d of %d tasks failed:\n%s", len(e.Tasks), e.Of, strings.Join(lines, "\n"))
}

// Follow submits and waits until each task is done or has failed; those that failed are in a [FailedError].
func (f *Follower) Follow(ctx context.Context) error {
	for {
		open, err := f.Look(ctx)
		if err != nil {
			return err
		}
		if open == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.Every):
		}
	}
	if len(f.failed) > 0 {
		return &FailedError{f.failed, len(f.Tasks)}
	}
	return nil
}

// Look asks the engine once, submits what is to be submitted, and returns how many tasks are neither done nor given up.
func (f *Follower) Look(ctx context.Context) (open int, err error) {
	for _, task := range f.Tasks {
		if f.done[task] {
			continue
		}
		if f.done[task], err = f.Done(task); err != nil {
			return 0, err
		}
		if f.done[task] {
			f.tell(task, "done")
			delete(f.failed, task)
		}
	}
	live, err := f.live(ctx)
	if err != nil {
		if len(f.told) == 0 || ctx.Err() != nil { // nothing works yet: people should know at once
			return 0, err
		}
		f.Say(fmt.Sprintf("%v; asking again", err))
		return f.open(), nil
	}
	var submit []int
	for _, task := range f.Tasks {
		switch state, lives := live[task]; {
		case f.done[task], f.failed[task] != "":
		case lives:
			f.gone[task] = 0
			f.tell(task, state)
		case f.attempts[task] == 0:
			submit = append(submit, task)
		default:
			again, err := f.lost(task)
			if err != nil {
				return 0, err
			}
			if again {
				submit = append(submit, task)
			}
		}
	}
	if len(submit) > 0 {
		err = f.submit(ctx, submit)
	}
	return f.open(), err
}

// open counts the tasks that are neither done nor given up.
func (f *Follower) open() int {
	return len(numeric.Where(len(f.Tasks), func(i int) bool { return !f.done[f.Tasks[i]] && f.failed[f.Tasks[i]] == "" }))
}

// lost decides about a task that was submitted, has ended and is not done. It must be missing twice, for a network
// folder may show the result late.
func (f *Follower) lost(task int) (again bool, err error) {
	if f.gone[task]++; f.gone[task] < 2 {
		return false, nil
	}
	failure, err := ReadFailure(f.Array.State, task)
	if err != nil {
		return false, err
	}
	reason := "it ended without a result"
	if failure != nil {
		reason = failure.Error
	}
	if (failure == nil || !failure.Final) && f.attempts[task] < f.Attempts {
		f.tell(task, "lost: "+reason)
		return true, nil
	}
	var s Submission
	for _, s = range slices.Backward(f.list) {
		if slices.Contains(s.Tasks, task) {
			break
		}
	}
	if failure == nil || !failure.Final {
		reason = fmt.Sprintf("submitted %d times, the last one: %s", f.attempts[task], reason)
	}
	f.failed[task] = fmt.Sprintf("%s (its output: %s)", reason, f.Engine.Log(f.Array, s, task))
	f.tell(task, "failed: "+f.failed[task])
	return false, nil
}

// live joins what the engines say of all submissions.
func (f *Follower) live(ctx context.Context) (map[int]string, error) {
	all := map[int]string{}
	for _, s := range f.list {
		if f.over[s.Serial] || s.ID == "" {
			continue
		}
		engine := f.Engine
		if s.Engine != engine.Name() {
			var err error
			if engine, err = New(s.Engine); err != nil {
				return nil, err
			}
		}
		live, err := engine.Live(ctx, s)
		if err != nil {
			return nil, err
		}
		f.over[s.Serial] = len(live) == 0
		for task, state := range live {
			all[task] = fmt.Sprintf("%s (%s %s)", state, s.Engine, s.ID)
		}
	}
	return all, nil
}

// submit hands tasks to the engine. The record is written before, without an ID, so that a killed process leaves no two
// submissions of one name.
func (f *Follower) submit(ctx context.Context, tasks []int) error {
	s, err := f.Array.Write(f.Engine, tasks)
	if err != nil {
		return err
	}
	s.Time = time.Now().UTC().Truncate(time.Second)
	record := filepath.Join(f.Array.State, submissionsFile)
	for _, task := range tasks {
		if err := Fail(f.Array.State, task, nil, false); err != nil {
			return err
		}
	}
	if err := atomicfile.WriteJSON(record, append(f.list, s)); err != nil {
		return err
	}
	refused := f.Engine.Submit(ctx, &s)
	if s.ID == "" {
		s.Tasks = nil
	}
	f.list = append(f.list, s)
	if err := errors.Join(atomicfile.WriteJSON(record, f.list), ctx.Err()); err != nil {
		return errors.Join(refused, err)
	}
	for _, task := range s.Tasks {
		f.attempts[task]++
		f.gone[task] = 0
		state := fmt.Sprintf("submitted (%s %s)", s.Engine, s.ID)
		if f.attempts[task] > 1 {
			state = fmt.Sprintf("submitted again, %d of at most %d times (%s %s)", f.attempts[task], f.Attempts,
				s.Engine, s.ID)
		}
		f.tell(task, state)
	}
	if refused == nil {
		f.refusals = 0
		return nil
	}
	if f.refusals++; f.refusals >= f.Attempts || len(f.told) == 0 {
		return refused
	}
	f.Say(fmt.Sprintf("%v; trying again", refused))
	return nil
}

func (f *Follower) tell(task int, state string) {
	if f.told[task] != state {
		f.told[task] = state
		f.Tell(task, state)
	}
}

// Cancels are the commands that end what lives.
func (f *Follower) Cancels() (commands []string) {
	for _, s := range f.list {
		if engine, err := New(s.Engine); err == nil && !f.over[s.Serial] && s.ID != "" {
			commands = append(commands, engine.Cancel(s))
		}
	}
	return commands
}
