package rounds

import (
	"popri/internal/numeric"
	"popri/model/tensor"
	"popri/show/series"
	"time"
)

// Stage is a part of a run, for progress and timing.
type Stage struct {
	Name  string // generate, embed, collect, …
	Round int    // from 1; 0 outside of rounds
	Took  time.Duration
	// Opening is a part that precedes the run itself: reading the data, loading models. The run's log has none of them.
	Opening bool

	events *Events
}

// Progress reports how much of the stage is done.
func (s Stage) Progress(done, total int) { s.events.complete().Progress(s, done, total) }

// Log gives an event of the method's own to [Events.Log].
func (s Stage) Log(event string, v any) { s.events.complete().Log(event, s.Round, v) }

// Say gives a sentence for the user to [Events.Say].
func (s Stage) Say(text string) { s.events.complete().Say(text) }

// Events are called during a run; nil ones are skipped. They must not keep their arguments.
type Events struct {
	StageBegin func(Stage)
	StageEnd   func(Stage)
	// Progress may be called by several goroutines at once.
	Progress func(s Stage, done, total int)
	// Log receives a method's own events, such as a training step: a name, the round (0 outside of rounds) and a value
	// whose JSON fields are logged.
	Log func(event string, round int, v any)
	// Say receives a sentence for the user.
	Say      func(text string)
	RoundEnd func(series.Round)
}

// Stage does f and reports its beginning and its end.
func (e *Events) Stage(name string, round int, f func(Stage) error) error {
	return e.do(Stage{Name: name, Round: round}, f)
}

// Opening is [Events.Stage] for a part that precedes the run.
func (e *Events) Opening(name string, f func(Stage) error) error {
	return e.do(Stage{Name: name, Opening: true}, f)
}

func (e *Events) do(s Stage, f func(Stage) error) error {
	s.events = e
	told := e.complete()
	told.StageBegin(s)
	begun := time.Now()
	if err := f(s); err != nil {
		return err
	}
	s.Took = time.Since(begun)
	tensor.Trim() // the memory of one stage must not add to the next one's
	told.StageEnd(s)
	return nil
}

// complete has functions that do nothing instead of those that are nil.
func (e *Events) complete() Events {
	var all Events
	if e != nil {
		all = *e
	}
	for _, f := range []*func(Stage){&all.StageBegin, &all.StageEnd} {
		if *f == nil {
			*f = func(Stage) {}
		}
	}
	if all.Progress == nil {
		all.Progress = func(Stage, int, int) {}
	}
	if all.Log == nil {
		all.Log = func(string, int, any) {}
	}
	if all.Say == nil {
		all.Say = func(string) {}
	}
	if all.RoundEnd == nil {
		all.RoundEnd = func(series.Round) {}
	}
	return all
}

// Tee calls each of several listeners in turn.
func Tee(list ...Events) Events {
	all := numeric.Map(list, func(e Events) Events { return e.complete() })
	each := func(tell func(Events)) {
		for _, e := range all {
			tell(e)
		}
	}
	return Events{
		StageBegin: func(s Stage) { each(func(e Events) { e.StageBegin(s) }) },
		StageEnd:   func(s Stage) { each(func(e Events) { e.StageEnd(s) }) },
		Progress:   func(s Stage, done, total int) { each(func(e Events) { e.Progress(s, done, total) }) },
		Log:        func(event string, round int, v any) { each(func(e Events) { e.Log(event, round, v) }) },
		Say:        func(text string) { each(func(e Events) { e.Say(text) }) },
		RoundEnd:   func(r series.Round) { each(func(e Events) { e.RoundEnd(r) }) },
	}
}
