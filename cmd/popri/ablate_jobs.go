package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/cachedir"
	"popri/internal/datakey"
	"popri/internal/quote"
	"popri/study"
	"popri/study/grid"
	"popri/study/jobs"
)

// jobFlags say how a grid runs on a cluster.
type jobFlags struct {
	on, template                  string
	values                        []string
	parallel, attempts            int
	every                         time.Duration
	dryRun, detach, printTemplate bool
}

// indexVariable is set by Kubernetes in the pods of an Indexed Job.
const indexVariable = "JOB_COMPLETION_INDEX"

func (j *jobFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&j.on, "on", "", "do the runs as jobs: "+strings.Join(jobs.Names(), ", "))
	f.StringArrayVar(&j.values, "job", nil, "with --on: a value of the template, such as memory=8G; may be repeated")
	f.StringVar(&j.template, "template", "", "with --on: a file in place of the engine's template")
	f.BoolVar(&j.printTemplate, "print-template", false, "with --on: print the engine's template and end")
	f.BoolVar(&j.dryRun, "dry-run", false, "with --on: write what would be submitted and end")
	f.BoolVar(&j.detach, "detach", false, "with --on: submit and end; --resume gathers the results")
	f.IntVar(&j.parallel, "parallel", 0, "with --on: runs at a time (0: as many as the engine allows)")
	f.IntVar(&j.attempts, "attempts", 3, "with --on: how often a lost run is submitted, the first time included")
	f.DurationVar(&j.every, "every", 10*time.Second, "with --on: time between two looks at the jobs")
}

// check returns an error if flags do not go together.
func (f *ablateFlags) check(cmd *cobra.Command) error {
	grid := slices.Concat([]string{"config", "preset", "set", "over", "instead", "seeds", "adaptive"}, worldNames)
	engine := []string{"job", "template", "print-template", "dry-run", "detach", "parallel"}
	if f.cell != "" {
		if other := changed(cmd, slices.Concat(grid, engine,
			[]string{"on", "resume", "attempts", "every"})...); other != "" {
			return fmt.Errorf("--cell takes everything from the plan in --out; do not combine it with --%s", other)
		}
	}
	if f.resume {
		if other := changed(cmd, grid...); other != "" {
			return fmt.Errorf("--resume takes the grid from the plan in --out; do not combine it with --%s", other)
		}
	}
	if other := changed(cmd, engine...); other != "" && f.jobs.on == "" && !(f.resume && other == "detach") {
		return fmt.Errorf("--%s needs --on", other)
	}
	if other := changed(cmd, "eta", "min-rounds"); other != "" && !f.adaptive {
		return fmt.Errorf("--%s needs --adaptive", other)
	}
	if f.adaptive && f.jobs.on != "" {
		return errors.New("--adaptive waits for all runs of a rung, which jobs cannot; do not combine it with --on")
	}
	if f.jobs.attempts < 1 || f.jobs.parallel < 0 || f.jobs.every <= 0 {
		return fmt.Errorf("--attempts is %d, --parallel %d and --every %s; want 1 or more, 0 or more, and more than 0",
			f.jobs.attempts, f.jobs.parallel, f.jobs.every)
	}
	return nil
}

func (a *app) printTemplate(f jobFlags) error {
	text, err := jobs.Template(f.on)
	if err == nil {
		_, err = io.WriteString(a.out, text)
	}
	return err
}

// ablateCell does one run of a plan, as the task of a job.
func (a *app) ablateCell(cmd *cobra.Command, flags ablateFlags) error {
	number, err := cellNumber(flags.cell, os.Getenv(indexVariable))
	if err != nil {
		return usage(err)
	}
	if err := flags.track.check(); err != nil { // what this machine lacks must not end the run
		a.warn(err.Error() + "; the run continues without trackers")
		flags.track.names = nil
	}
	options := a.ablateOptions(flags.out, flags.track)
	options.Begin = func(i, n int, c grid.Cell, done bool) {
		a.say("cell %d: %s%s", i, c.Name, doneBefore[done])
	}
	return study.RunTask(cmd.Context(), study.TaskOptions{Options: options, Cell: number, Threads: a.threads,
		Waiting: func(holder string) { a.say("cell %d: another task does it: %s", number, holder) }})
}

// cellNumber reads --cell: a number, or a list of which index counts one from 0.
func cellNumber(text, index string) (int, error) {
	list := strings.Split(text, ",")
	at := 0
	if index != "" || len(list) > 1 {
		var err error
		if at, err = strconv.Atoi(index); err != nil || at < 0 || at >= len(list) {
			return 0, fmt.Errorf("--cell lists %d cells, and $%s is %q, want 0 to %d", len(list), indexVariable, index,
				len(list)-1)
		}
	}
	number, err := strconv.Atoi(list[at])
	if err != nil || number < 0 {
		return 0, fmt.Errorf("--cell is %q, want the number of a cell, from 0, or several between commas", text)
	}
	return number, nil
}

// resumed reads the planned grid and, unless --on names one, the engine of the last submission.
func (a *app) resumed(flags *ablateFlags) (base configs.Config, v grid.Varied, err error) {
	planned, err := grid.ReadPlan(flags.out)
	if errors.Is(err, fs.ErrNotExist) {
		return base, v, usage(fmt.Errorf("%s has no plan of jobs to resume; an ablation without --on continues by "+
			"repeating its command", flags.out))
	}
	if err != nil {
		return base, v, err
	}
	if flags.jobs.on == "" {
		if _, flags.jobs.on, err = jobs.Saved(grid.PlanDir(flags.out)); err != nil {
			return base, v, err
		}
		if flags.jobs.on == "" {
			return base, v, usage(fmt.Errorf("the jobs of %s were planned and not submitted: name the engine with --on", flags.out))
		}
	}
	return planned.Last()
}

// submitted is the output of ablate --on with --json, where it ends before the runs do.
type submitted struct {
	Engine   string            `json:"engine"`
	Files    string            `json:"files,omitempty"` // what --dry-run wrote
	Open     int               `json:"open"`            // runs that are not done
	Cells    int               `json:"cells"`
	Composed []ledger.Composed `json:"composed"` // as planned
	Cancel   []string          `json:"cancel"`   // commands that end the jobs
}

// ablateOn submits the cells that are not done and follows them. finished says that all have ended, and failed which
// cells did without a result, by their names.
func (a *app) ablateOn(cmd *cobra.Command, flags ablateFlags, base configs.Config, varied grid.Varied,
	cells []grid.Cell, cost []ledger.Composed) (failed map[string]bool, finished bool, err error) {
	engine, err := jobs.New(flags.jobs.on)
	if err != nil {
		return nil, false, err
	}
	planned, numbers, err := grid.WritePlan(flags.out, base, varied, cells)
	if err != nil {
		return nil, false, err
	}
	array, err := a.array(flags, planned)
	if err != nil {
		return nil, false, err
	}
	byNumber := map[int]grid.Cell{}
	for i, number := range numbers {
		byNumber[number] = cells[i]
	}
	f := &jobs.Follower{Array: array, Engine: engine, Tasks: numbers, Attempts: flags.jobs.attempts,
		Every: flags.jobs.every,
		Done:  func(task int) (bool, error) { return study.Finished(byNumber[task], flags.out) },
		Tell:  func(task int, state string) { a.say("cell %d  %s: %s", task, byNumber[task].Name, state) },
		Say:   func(text string) { a.say("%s", text) }}
	result := submitted{Engine: engine.Name(), Cells: len(cells), Composed: cost}
	if flags.jobs.dryRun {
		return nil, false, a.writeJobs(f, result)
	}
	if err := array.Save(engine.Name()); err != nil {
		return nil, false, err
	}
	if err := f.Open(); err != nil {
		return nil, false, err
	}
	defer f.Close()
	if !flags.jobs.detach {
		err := f.Follow(cmd.Context())
		if gaveUp, ok := errors.AsType[*jobs.FailedError](err); ok {
			failed, err = map[string]bool{}, nil
			for task := range gaveUp.Tasks {
				failed[byNumber[task].Name] = true
			}
		}
		if errors.Is(err, context.Canceled) {
			a.say("the jobs go on; follow them again with: popri ablate --resume --out %s\nor end them with: %s",
				quote.Shell(flags.out), strings.Join(f.Cancels(), "; "))
		}
		return failed, err == nil, err
	}
	if result.Open, err = f.Look(cmd.Context()); err != nil || result.Open == 0 {
		return failed, err == nil, err
	}
	result.Cancel = nonNil(f.Cancels())
	return nil, false, a.emit(result, func(w io.Writer) {
		fmt.Fprintf(w, "open\t%d of %d cells\nfollow\tpopri ablate --resume --out %s\n", result.Open, result.Cells,
			quote.Shell(flags.out))
		for _, c := range result.Cancel {
			fmt.Fprintf(w, "end\t%s\n", c)
		}
	})
}

// writeJobs writes the files for all cells that are not done.
func (a *app) writeJobs(f *jobs.Follower, result submitted) error {
	var open []int
	for _, task := range f.Tasks {
		done, err := f.Done(task)
		if err != nil {
			return err
		}
		if !done {
			open = append(open, task)
		}
	}
	result.Open, result.Cancel = len(open), []string{}
	if len(open) > 0 {
		s, err := f.Array.Write(f.Engine, open)
		if err != nil {
			return err
		}
		result.Files = s.File
	}
	return a.emit(result, func(w io.Writer) {
		fmt.Fprintf(w, "not submitted\t%s\nopen\t%d of %d cells\n", result.Files, result.Open, result.Cells)
	})
}

// array describes the tasks. With --resume, what is not given again is as it was submitted.
func (a *app) array(flags ablateFlags, planned *grid.Plan) (jobs.Array, error) {
	folder, err := filepath.Abs(flags.out)
	if err != nil {
		return jobs.Array{}, err
	}
	state := grid.PlanDir(folder)
	saved, engine, err := jobs.Saved(state)
	if err != nil {
		return saved, err
	}
	n := jobs.Array{Name: "popri-" + planned.ID, State: state, Values: map[string]string{}}
	if flags.resume && engine == flags.jobs.on {
		n = saved
	}
	n.Parallel = cmp.Or(flags.jobs.parallel, n.Parallel)
	if trackers := strings.Join(flags.track.names, ","); trackers != "" {
		n.Arguments = []string{"ablate", "--out", folder, "--report-to", trackers, "--cell"}
	} else if n.Arguments == nil {
		n.Arguments = []string{"ablate", "--out", folder, "--cell"}
	}
	if n.Program, err = os.Executable(); err != nil {
		return n, err
	}
	if n.WorkDir == "" {
		if n.WorkDir, err = os.Getwd(); err != nil {
			return n, err
		}
	}
	if flags.jobs.template != "" {
		text, err := os.ReadFile(flags.jobs.template)
		if err != nil {
			return n, usage(fmt.Errorf("--template: %w", err))
		}
		n.Template = string(text)
	}
	for _, text := range flags.jobs.values {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return n, usage(fmt.Errorf("--job %s: want a name and its value, such as memory=8G", text))
		}
		n.Values[key] = value
	}
	n.Environment, err = taskEnvironment()
	return n, err
}

// taskEnvironment is what tasks need to find on their machines as here: the key for tags of private data and the cache,
// and what decides how models compute. Settings are in the plan.
func taskEnvironment() (map[string]string, error) {
	key, noKey := datakey.Path()
	cache, noCache := cachedir.Dir()
	absolute, err := filepath.Abs(key)
	if err = cmp.Or(noKey, noCache, err); err != nil {
		return nil, usage(err)
	}
	vars := map[string]string{datakey.Variable: absolute, cachedir.Variable: cache}
	for _, name := range []string{"POPRI_KERNELS", "POPRI_AMX", "POPRI_MKL", "POPRI_DEVICE", "LD_LIBRARY_PATH"} {
		if value := os.Getenv(name); value != "" {
			vars[name] = value
		}
	}
	return vars, nil
}
