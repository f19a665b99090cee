// Command popri tunes a language model to write text like federated clients' text, under differential privacy, and
// trains small models on the synthetic text.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/hfconfig"
	_ "popri/internal/process"
	"popri/internal/version"
	"popri/methods/rounds"
	"popri/model/tensor"
	"popri/run/auditing"
	"popri/run/evaluator"
	"popri/run/federated"
)

// Exit codes that scripts rely on.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitWaiting     = 4
	exitUnmeasured  = 5
	exitInterrupted = 130
)

// app carries what all verbs share.
type app struct {
	out, err io.Writer // results; progress and everything else
	json     bool
	quiet    bool
	threads  int
	device   string
	accept   []string // fields of a model's config.json to ignore
	started  bool     // the command line was valid and a verb has begun

	lines       sync.Mutex    // so that no line of progress is written into another
	shown       *progress     // that shows a stage; nil for none
	evaluations func() string // the folder of fine-tunings that evaluations share; nil for none
}

// evaluating says how evaluations report and where they keep fine-tunings.
func (a *app) evaluating() evaluator.Options {
	o := evaluator.Options{Progress: a.evalProgress()}
	if a.evaluations != nil {
		o.Cache = a.evaluations()
	}
	return o
}

func main() {
	ctx, stop := fault.UntilEnded()
	defer stop()
	a := &app{out: os.Stdout, err: os.Stderr, evaluations: evaluator.CacheDir}
	a.warnOfLimit()
	os.Exit(a.execute(ctx, os.Args[1:]))
}

// leastSpace is the address space in bytes that Go, libtorch and the smallest models need.
const leastSpace = 3 << 30

// warnOfLimit says before the work what a limit of the address space leads to: Go's runtime ends the program without asking
// it, with a trace.
func (a *app) warnOfLimit() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err == nil && limit.Cur < leastSpace {
		a.warn(fmt.Sprintf("this shell allows %.1f GiB of memory (ulimit -v), and popri needs at least %d. If it is used up, popri "+
			"ends with \"out of memory\" and a list of functions. Raise the limit; popri run --resume continues a run",
			float64(limit.Cur)/(1<<30), leastSpace>>30))
	}
}

// execute runs one command line, prints its error and returns its exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	out := &checkedWriter{w: a.out}
	a.out = out
	cmd := a.root()
	cmd.SetArgs(args)
	cmd.SetOut(a.out)
	cmd.SetErr(a.err)
	verb, err := cmd.ExecuteContextC(ctx)
	a.show(nil)
	if !a.started {
		err = usage(err)
	} else { // a result that nobody can read is no success
		err = labelled(strings.TrimPrefix(verb.CommandPath(), "popri "), cmp.Or(err, out.err))
	}
	code := exitCode(ctx, err)
	if err != nil {
		text := err.Error()
		if code == exitInterrupted { // Go says that a context was cancelled
			text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
		}
		fmt.Fprintln(a.err, "popri: "+text)
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled), errors.As(err, new(rounds.Stopped)):
		return exitInterrupted
	case fault.IsUser(err):
		return exitUsage
	case refused(err):
		return exitRefused
	case errors.As(err, new(*federated.FewError)):
		return exitWaiting
	case errors.Is(err, auditing.ErrUnmeasured):
		return exitUnmeasured
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "popri",
		Version: version.Program(),
		Short:   "Tune a language model on federated private text with differentially private preferences",
		Long: `Tunes a language model to write text like federated clients' own, from public text and a noised sum of the clients' vectors.
What it writes trains small models, under a stated (ε, δ). popri simulates the clients: it reads their file.

Start here:
  popri doctor               what this machine has, and what is missing
  popri demo                 the whole loop on text that comes with Go, in minutes; it prints where its report lies
  popri data check FILE      whether a file of your own clients is in order; then popri demo --private FILE --public FILE
"popri VERB --help" explains a verb with examples. The pages in docs/ begin with quickstart.md.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return err
			}
			if a.threads < 0 {
				return fmt.Errorf("--threads is %d, want 0 (one for each CPU) or more", a.threads)
			}
			tensor.SetThreads(a.threads)
			if err := tensor.SetDevice(cmp.Or(a.device, "auto")); err != nil {
				return err
			}
			hfconfig.Accept(a.accept...)
			a.started = true
			return nil
		},
	}
	cmd.SetVersionTemplate("popri {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return hinted(c, err) })
	cmd.PersistentFlags().BoolVar(&a.json, "json", false,
		"print one JSON object on standard output and everything else on standard error")
	cmd.PersistentFlags().BoolVar(&a.quiet, "quiet", false, "print no progress")
	cmd.PersistentFlags().IntVar(&a.threads, "threads", 0, "threads of an operation (0: one for each CPU)")
	cmd.PersistentFlags().StringVar(&a.device, "device", "",
		"where models compute: auto, cpu or cuda (default: the configuration's model.device, else auto)")
	cmd.PersistentFlags().StringSliceVar(&a.accept, "accept-key", nil,
		"unknown field of a model's config.json to ignore; may be repeated")
	for _, g := range a.groups() {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, verb := range g.verbs {
			verb.GroupID = g.title
			cmd.AddCommand(verb)
		}
	}
	complete(cmd)
	return cmd
}

// hinted adds to the error of an unknown flag the setting of that name, which --set sets, or the flag or setting whose
// name is nearest.
func hinted(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return err
	}
	var flags, keys, found []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	if cmd.Flags().Lookup("set") != nil {
		keys = configs.Names()
	}
	key := strings.ReplaceAll(name, "-", "_")
	for _, k := range keys {
		if strings.HasSuffix(k, "."+key) || k == key {
			found = append(found, "--set "+k+"=…")
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%w; a setting of that name is %s", err, strings.Join(found, " or "))
	}
	if near := configs.Nearest(name, flags); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	if near := configs.Nearest(key, keys); near != "" {
		return fmt.Errorf("%w; did you mean --set %s=…?", err, near)
	}
	return err
}

// show makes p show stages. A stage of another, which failed and so had no end, is shown no longer.
func (a *app) show(p *progress) {
	if a.shown != nil && a.shown != p {
		a.shown.stop()
	}
	a.shown = p
}

// say prints a line of progress.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		a.lines.Lock()
		defer a.lines.Unlock()
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}
