// Command popri tunes a language model to write text that federated clients recognise as theirs, under differential
// privacy, and trains small models on what it writes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"popri/tensor"
)

// Exit codes that scripts rely on.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitInterrupted = 130
)

// usageError is a mistake of the user's: flags, configuration or input files.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// app carries what all verbs share.
type app struct {
	out, err io.Writer // results; progress and everything else
	json     bool
	quiet    bool
	threads  int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{out: os.Stdout, err: os.Stderr}
	err := a.root().ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "popri: "+err.Error())
	}
	os.Exit(exitCode(ctx, err))
}

func exitCode(ctx context.Context, err error) int {
	var mistake usageError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &mistake):
		return exitUsage
	case refused(err):
		return exitRefused
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "popri",
		Short:         "Tune a language model on federated private text through differentially private preferences",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			tensor.SetThreads(a.threads)
		},
	}
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object on standard output, all else on standard error")
	cmd.PersistentFlags().BoolVar(&a.quiet, "quiet", false, "print no progress")
	cmd.PersistentFlags().IntVar(&a.threads, "threads", 0, "threads of an operation (0: one for each CPU)")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	cmd.AddCommand(a.verbs()...)
	return cmd
}

// say prints a line of progress.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}
