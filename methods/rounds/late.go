package rounds

import (
	"fmt"
	"path/filepath"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
)

// clock is the time of the rounds that a process does.
type clock struct {
	began time.Time
	last  time.Duration // of the newest round; 0 before the first
}

// bound is what [rundir.Ended] has: the bound that ended the rounds, and where.
type bound struct {
	Rounds int     `json:"rounds"`
	Hours  float64 `json:"max_hours"`
}

// late reports whether the next round would end after [Options.MaxTime], if it took as long as the last one. What a
// run's product is then made of is noted, so that a process that resumes the run does no further round, unless it has a
// larger bound.
func (t *Runner) late(done int, c clock) (bool, error) {
	if t.MaxTime == 0 || done == 0 {
		return false, nil
	}
	file := filepath.Join(t.Dir, rundir.Ended)
	var before bound
	if there, err := atomicfile.ReadJSONIfAny(file, &before); err != nil || there && before.Hours >= t.MaxTime.Hours() {
		return err == nil, err
	}
	spent := time.Since(c.began)
	if spent+c.last <= t.MaxTime {
		return false, nil
	}
	t.Events.Say(fmt.Sprintf("the rounds end after %d of at most %d: they took %s, and another would take about %s "+
		"(trainer.max_hours=%g)", done, t.Rounds, spent.Round(time.Second), c.last.Round(time.Second),
		t.MaxTime.Hours()))
	t.Events.Log("late", done, bound{done, t.MaxTime.Hours()})
	return true, atomicfile.WriteJSON(file, bound{done, t.MaxTime.Hours()})
}
