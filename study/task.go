package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"popri/accountant/ledger"
	"popri/internal/fault"
	"popri/internal/version"
	"popri/study/grid"
	"popri/study/jobs"
)

// TaskOptions say what a task of an ablation does.
type TaskOptions struct {
	Options
	Cell  int        // the cell's number in the plan
	Clock jobs.Clock // zero is [jobs.Standard]
	// Waiting is told if another task does the cell now.
	Waiting func(holder string)
	Threads int // if not zero, replaces the cell's, which changes no result
}

// RunTask does one planned cell of the ablation in o.Dir: its run and its evaluation. A cell that is done is left as it
// is; one that another task does is waited for. An error is recorded for anyone who submitted the task.
func RunTask(ctx context.Context, o TaskOptions) error {
	p, err := grid.ReadPlan(o.Dir)
	if errors.Is(err, os.ErrNotExist) {
		err = fault.Userf("%s has no plan of an ablation: popri ablate --on writes it", o.Dir)
	}
	if err != nil {
		return err
	}
	if version := version.Program(); version != p.Program && o.Warn != nil {
		o.Warn(fmt.Sprintf("the ablation was planned by version %s, and this is version %s: results may differ",
			p.Program, version))
	}
	state := grid.PlanDir(o.Dir)
	fail := func(err error) error {
		if err == nil || errors.Is(err, context.Canceled) { // an interrupted task is submitted again
			return err
		}
		final := fault.IsUser(err) || errors.Is(err, ledger.ErrBudget)
		return errors.Join(err, jobs.Fail(state, o.Cell, err, final))
	}
	c, err := p.Cell(o.Cell)
	if err == nil {
		err = p.CheckKey()
	}
	if err != nil {
		return fail(err)
	}
	if o.Threads > 0 {
		c.Config.Model.Threads = o.Threads
	}
	leases := filepath.Join(state, "leases")
	if err := os.MkdirAll(leases, 0o755); err != nil {
		return fail(err)
	}
	held, lease, err := jobs.Hold(ctx, filepath.Join(leases, fmt.Sprintf("%04d", o.Cell)),
		cmp.Or(o.Clock, jobs.Standard), o.Waiting)
	if err != nil {
		return fail(err)
	}
	_, err = complete(held, c, o.Cell, len(p.Cells), o.Options)
	if lost := context.Cause(held); lost != nil && ctx.Err() == nil {
		err = errors.Join(lost, err)
	}
	return errors.Join(fail(err), lease.Release())
}
