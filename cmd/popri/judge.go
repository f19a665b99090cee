package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/eval/judge"
	"popri/run/judging"
	"popri/show/report"
)

// judgeOptions are the flags of the verb judge.
type judgeOptions struct {
	judging.Options
	flags   configFlags
	track   trackFlag
	against string // file of the clients
}

func (a *app) judge() *cobra.Command {
	var o judgeOptions
	cmd := &cobra.Command{
		Use:   "judge --run DIR | --product FILE --against CLIENTS",
		Short: "Ask of synthetic texts whether they are like the clients', and whether they repeat anybody",
		Long: `Judges a run's synthetic set, or texts of any program, for the owner of the data. Is it like the clients'
texts (MAUVE, precision and recall, Fréchet distance, divergences of lengths, words, patterns and labels, topics side
by side)? Does it repeat clients' words, reveal who took part, or contain what looks like personal data?

Train clients are compared with clients who were held out, so that chance and leaks can be separated: validation and
test clients, or the clients of --controls. The held-out clients must have been drawn as the others were; the page
says if they differ.

It writes judge.json and the page quality-and-privacy.html into --out, by default for-the-data-owner in the run's folder. They are
made of clients' texts without noise, and they are outside of ε: data push-ready leaves them out.

--canaries names a file of texts that were planted among the clients', one on each line; --names a file of people's names.

` + trackHelp + `
The figures are judge/mauve/…, judge/precision/…, judge/recall/… and judge/frechet/… of product, public text and other clients, against
clients held out. Nothing about train clients is sent.`,
		Example: "  popri judge --run runs/eps1\n" +
			"  popri judge --product texts.jsonl --against clients.parquet --set scoring.encoder=minilm --out judged",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runJudge(cmd, o) },
	}
	o.flags.add(cmd)
	o.track.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Run, "run", "", "folder of a finished run")
	f.StringVar(&o.Product, "product", "", "file of synthetic texts: Parquet, JSON lines or plain lines")
	f.StringVar(&o.against, "against", "",
		"with --product: Parquet file of the clients; the texts were made from train clients")
	f.StringVar(&o.Controls, "controls", "",
		"Parquet file of clients who were held out (default: validation and test clients)")
	f.StringVar(&o.Canaries, "canaries", "", "file of planted texts, one on each line")
	f.StringVar(&o.Names, "names", "", "file of people's names, one on each line")
	f.StringVar(&o.Out, "out", "", "folder for the page and the figures")
	return cmd
}

// runJudge judges a product for the owner of the data.
func (a *app) runJudge(cmd *cobra.Command, o judgeOptions) error {
	if (o.Run == "") == (o.Product == "") {
		return usage(errors.New("name either --run or --product"))
	}
	if o.Run != "" {
		if name := changed(cmd, "against", "config", "preset", "set"); name != "" {
			return usage(fmt.Errorf("--%s cannot be combined with --run, which has its own configuration", name))
		}
	} else {
		if o.against == "" || o.Out == "" {
			return usage(errors.New("--product needs --against, a file of clients, and --out, a folder"))
		}
		o.flags.set = append(o.flags.set, "data.private="+o.against)
		var err error
		if o.Config, err = o.flags.load(); err != nil {
			return err
		}
	}
	o.Trackers, o.Warn = o.track.names, a.warn
	p := a.progress()
	o.Tell = p.stages()
	result, page, err := judging.Judge(cmd.Context(), o.Options)
	p.stop()
	if err != nil {
		return err
	}
	a.say("page: %s", page)
	return a.emit(result, func(w io.Writer) { judgeTable(w, result) })
}

// judgeTable prints the answers and the figures behind them.
func judgeTable(w io.Writer, r *judge.Result) {
	for _, s := range append(report.Judgement(r), report.JudgementCaveats(r)...) {
		fmt.Fprintln(w, s)
	}
	fmt.Fprintln(w, "\ntexts\tMAUVE\tprecision %\trecall %\tFréchet distance")
	for _, l := range r.Likeness {
		fmt.Fprintf(w, "%s\t%.3f ± %.3f\t%.1f\t%.1f\t%.3f\n", l.Name, l.Mauve, l.MauveStd, 100*l.Precision,
			100*l.Recall, l.Frechet)
	}
	fmt.Fprintf(w, "\nrun of words\tof %d clients behind it\tof %d held out\tprobability of as many\n", r.Members,
		r.Controls)
	for _, m := range r.Memory.Runs {
		fmt.Fprintf(w, "%d or more\t%d\t%d\t%.3f\n", m.Words, m.Members, m.Controls, m.P)
	}
	fmt.Fprintln(w, "\nguessed by\tAUC\tε at least")
	for _, m := range r.Membership {
		fmt.Fprintf(w, "%s\t%.3f\t%.2f\n", m.Name, m.AUC, m.Epsilon)
	}
}
