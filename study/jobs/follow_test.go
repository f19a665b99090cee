package jobs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/internal/filelock"
)

// made is an engine in memory. run is called for each task that is submitted; what it leaves undone is lost.
type made struct {
	run     func(task, attempt int) error
	refuse  int // submissions to refuse
	mute    int // questions to leave unanswered
	started map[int]int
	after   int // looks during which submitted tasks are pending
	looks   map[string]int
}

func (*made) Name() string { return "slurm" }

func (*made) Files(a Array, s *Submission) ([]File, error) {
	s.File = filepath.Join(a.State, fmt.Sprintf("%04d", s.Serial))
	return []File{{s.File, []byte("tasks")}}, nil
}

func (m *made) Submit(_ context.Context, s *Submission) error {
	if m.refuse > 0 {
		m.refuse--
		return errors.New("the queue is closed")
	}
	s.ID = fmt.Sprint(100 + s.Serial)
	for _, task := range s.Tasks {
		m.started[task]++
		if err := m.run(task, m.started[task]); err != nil {
			return err
		}
	}
	return nil
}

func (m *made) Live(_ context.Context, s Submission) (map[int]string, error) {
	if m.mute > 0 {
		m.mute--
		return nil, errors.New("nobody answers")
	}
	if m.looks[s.ID]++; m.looks[s.ID] > m.after {
		return nil, nil
	}
	live := map[int]string{}
	for _, task := range s.Tasks {
		live[task] = "pending"
	}
	return live, nil
}

func (*made) Cancel(s Submission) string        { return "scancel " + s.ID }
func (*made) Log(Array, Submission, int) string { return "the log" }
func newMade(run func(task, attempt int) error) *made {
	return &made{run: run, started: map[int]int{}, looks: map[string]int{}}
}

// follower follows tasks whose results are in done.
func follower(t *testing.T, dir string, m Engine, done map[int]bool) (*Follower, *[]string) {
	t.Helper()
	var told []string
	f := &Follower{Array: Array{Name: "popri-test", State: dir}, Engine: m, Tasks: []int{0, 1, 4}, Attempts: 3,
		Every: time.Millisecond,
		Done:  func(task int) (bool, error) { return done[task], nil },
		Tell:  func(task int, state string) { told = append(told, fmt.Sprint(task, " ", state)) },
		Say:   func(text string) { told = append(told, text) }}
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, &told
}

func TestLostTasksAreSubmittedAgain(t *testing.T) {
	done := map[int]bool{0: true}
	m := newMade(func(task, attempt int) error {
		done[task] = task != 4 || attempt == 3 // two attempts at task 4 are lost
		return nil
	})
	m.after = 2
	f, told := follower(t, t.TempDir(), m, done)
	if err := f.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.started[0] != 0 || m.started[1] != 1 || m.started[4] != 3 {
		t.Errorf("submissions: %v", m.started)
	}
	all := strings.Join(*told, "\n")
	for _, want := range []string{"0 done", "4 pending (slurm 101)", "4 lost: it ended without a result",
		"submitted again, 3 of at most 3 times", "4 done"} {
		if !strings.Contains(all, want) {
			t.Errorf("nobody was told %q:\n%s", want, all)
		}
	}
	list, err := f.Array.submissions()
	if err != nil || len(list) != 3 || !slices.Equal(list[0].Tasks, []int{1, 4}) ||
		!slices.Equal(list[2].Tasks, []int{4}) {
		t.Errorf("%v: %+v", err, list)
	}
}

func TestFailedTasks(t *testing.T) {
	dir := t.TempDir()
	done := map[int]bool{}
	m := newMade(func(task, attempt int) error {
		switch task {
		case 0:
			return Fail(dir, task, errors.New("no such file"), true)
		case 1:
			return Fail(dir, task, fmt.Errorf("out of memory %d", attempt), false)
		}
		done[task] = true
		return nil
	})
	f, _ := follower(t, dir, m, done)
	err := f.Follow(t.Context())
	failed, ok := errors.AsType[*FailedError](err)
	if !ok || len(failed.Tasks) != 2 || m.started[0] != 1 || m.started[1] != 3 || m.started[4] != 1 {
		t.Fatalf("%v, submissions %v", err, m.started)
	}
	for _, want := range []string{"2 of 3 tasks", "task 0: no such file (its output: the log)",
		"task 1: submitted 3 times, the last one: out of memory 3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	// Somebody looked at it: another follower tries again, and the old failures are forgotten.
	f.Close()
	m.run = func(task, _ int) error { done[task] = true; return nil }
	f, _ = follower(t, dir, m, done)
	if err := f.Follow(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := ReadFailure(dir, 0); left != nil || err != nil {
		t.Errorf("%v: %+v", err, left)
	}
}

func TestEngineThatDoesNotAnswer(t *testing.T) {
	done := map[int]bool{}
	m := newMade(func(task, _ int) error { done[task] = task != 4; return nil })
	m.refuse = 1
	f, _ := follower(t, t.TempDir(), m, done)
	if err := f.Follow(t.Context()); err == nil || !strings.Contains(err.Error(), "the queue is closed") {
		t.Errorf("a first submission that is refused: %v", err)
	}
	// Later, an engine that is away for a while is asked again.
	m.run = func(task, attempt int) error { done[task] = task != 4 || attempt == 2; m.mute = 3; return nil }
	f.Close()
	f, told := follower(t, t.TempDir(), m, done)
	if err := f.Follow(t.Context()); err != nil ||
		!strings.Contains(strings.Join(*told, "\n"), "nobody answers; asking again") {
		t.Errorf("%v: %q", err, *told)
	}
}

func TestOneFollowerAtATime(t *testing.T) {
	dir := t.TempDir()
	m := newMade(func(int, int) error { return nil })
	f, _ := follower(t, dir, m, nil)
	second := &Follower{Array: f.Array, Engine: m}
	if err := second.Open(); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("a second follower: %v", err)
	}
}
