package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"popri/internal/rundir"
	"popri/run/reporting"
	"popri/show/watch"
)

// watchFlags say where a live page is served, and whether its viewers may stop the run.
type watchFlags struct {
	addr      string
	allowStop bool
}

// anyPort is this machine alone, on a port that is free.
const anyPort = "127.0.0.1:0"

func (f *watchFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "watch", "",
		"serve a live page and print its address: --watch takes a free port of this machine, --watch=HOST:PORT that one")
	cmd.Flags().Lookup("watch").NoOptDefVal = anyPort
	cmd.Flags().BoolVar(&f.allowStop, "allow-stop", false,
		"with --watch: the page can stop the run after a round, and withdraw that")
}

func (a *app) watch() *cobra.Command {
	f := watchFlags{addr: anyPort}
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Show a run while it trains, in a browser",
		Long: `Serves a page that shows a run while it trains: the stage under way with its rate and the time left, the curves of the
rounds, the privacy budget, the newest texts with the highest and lowest scores, and memory. It only reads the run's folder, so
it works for a run of another process, across interruptions and --resume, and for a finished run. /metrics has the figures for
Prometheus.

The page is served to this machine alone, unless --addr says otherwise; anyone who opens it sees what a reader of the
run's folder sees. With --allow-stop the printed address has a token, and the page a button that ends the run after the round under way, as an interruption
does; popri run --resume continues. Until that round has ended, the same button withdraws the request.`,
		Example: "  popri watch runs/eps1\n  popri watch runs/eps1 --addr 127.0.0.1:8700 --allow-stop",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runWatch(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringVar(&f.addr, "addr", f.addr, "address to serve at; port 0 takes a free one")
	cmd.Flags().BoolVar(&f.allowStop, "allow-stop", false, "the page can stop the run after a round, and withdraw that")
	return cmd
}

// runWatch serves the page of a run until ctx ends.
func (a *app) runWatch(ctx context.Context, run string, f watchFlags) error {
	if !rundir.Exists(run) {
		return usage(fmt.Errorf("%s holds no run: there is no %s", run, rundir.Config))
	}
	w, l, err := a.open(f, run)
	if err != nil {
		return err
	}
	url := address(l, w.Token)
	err = a.emit(map[string]any{"url": url, "metrics": address(l, "") + "metrics", "run": run},
		func(w io.Writer) { fmt.Fprintln(w, url) })
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return serve(ctx, w, l)
}

// open listens at the address and makes the watcher of the run in dir.
func (a *app) open(f watchFlags, dir string) (*watch.Watcher, net.Listener, error) {
	o := watch.Options{Dir: dir, Describe: reporting.About}
	if f.allowStop {
		o.Token = rand.Text()
	}
	l, err := a.listen(f.addr)
	return watch.New(o), l, err
}

// address is what a browser opens. The token stands behind a #, which browsers keep to themselves.
func address(l net.Listener, token string) string {
	url := "http://" + l.Addr().String() + "/"
	if token != "" {
		url += "#token=" + token
	}
	return url
}

// listen listens at an address, and says who else can open a page there.
func (a *app) listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usage(fmt.Errorf("cannot serve at %q: %w", addr, err))
	}
	if !watch.Loopback(l.Addr().String()) {
		a.warn("watch: every machine that reaches " + l.Addr().String() + " can read the page; it is not encrypted")
	}
	return l, nil
}

// serve follows the run and serves its page until ctx ends.
func serve(ctx context.Context, w *watch.Watcher, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go w.Run(ctx)
	return w.Serve(ctx, l)
}

// watchRun serves the page of a run that this process is about to do, if --watch is given. stop ends it, with the run's
// error. After a run without an error it waits for Ctrl-C if there is a terminal to press it on; a script continues at
// once.
func (a *app) watchRun(cmd *cobra.Command, f watchFlags, dir string) (stop func(ended error), err error) {
	if f.addr == "" {
		if f.allowStop {
			return nil, usage(errors.New("--allow-stop needs --watch"))
		}
		return func(error) {}, nil
	}
	w, l, err := a.open(f, dir)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(a.err, "watch: "+address(l, w.Token))
	ctx, cancel := context.WithCancel(cmd.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := serve(ctx, w, l); err != nil {
			a.warn(err.Error()) // the run continues without its page
		}
	}()
	return func(ended error) {
		if ended == nil && isTerminal(a.err) && ctx.Err() == nil {
			fmt.Fprintln(a.err, "watch: the run has ended; its page stays until Ctrl-C: "+address(l, ""))
			select {
			case <-ctx.Done():
			case <-served:
			}
		}
		cancel()
		<-served
		if rundir.Exists(dir) {
			fmt.Fprintln(a.err, "watch: the page has ended; this shows it again: popri watch "+dir)
		}
	}, nil
}
