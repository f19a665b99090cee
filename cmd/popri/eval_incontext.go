package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"popri/configs"
	"popri/eval/incontext"
	"popri/internal/rundir"
	"popri/run/evaluator"
)

const inContextHelp = `
--task in-context trains nothing. The language model of model.path (or --model) sees labelled texts as demonstrations
and is asked for the labels of test clients' texts. Rows have no demonstrations, the synthetic set's, labelled public
text's (data.public), and the train clients' if eval.reference_private allows it. Each row has the mean and the standard deviation
over --draws sets of demonstrations. The calibrated accuracy takes away which labels the model prefers whatever the text is. The
figures go into in-context.json in the run's folder or --out.`

// inContextFlags are the flags of eval --task in-context.
type inContextFlags struct {
	evaluator.InContextOptions
	names []string
}

var inContextOnly = []string{"shots", "draws", "test-texts", "header", "item", "name"}

func (x *inContextFlags) add(f *pflag.FlagSet) {
	f.IntSliceVar(&x.Shots, "shots", []int{6},
		"with --task in-context: demonstrations shown; several numbers, separated by commas, give a row each")
	f.IntVar(&x.Draws, "draws", 10, "with --task in-context: sets of demonstrations for each number")
	f.IntVar(&x.Texts, "test-texts", 200,
		"with --task in-context: test texts that are asked about, drawn at random; 0 for all")
	f.StringVar(&x.Header, "header", "", "with --task in-context: text before the demonstrations")
	f.StringVar(&x.Item, "item", incontext.DefaultItem,
		"with --task in-context: form of a demonstration, which ends in {label}")
	f.StringArrayVar(&x.names, "name", nil,
		"with --task in-context: the word that stands for a label, such as pos=positive; may be repeated")
}

// wordsOf reads the words that stand for labels, label=word.
func wordsOf(names []string) (map[string]string, error) {
	words := map[string]string{}
	for _, n := range names {
		label, word, ok := strings.Cut(n, "=")
		if !ok || strings.TrimSpace(word) == "" {
			return nil, fmt.Errorf("--name %q: want label=word", n)
		}
		words[label] = word
	}
	return words, nil
}

// evalInContext evaluates the synthetic set of a run, or a file of texts with labels, as demonstrations.
func (a *app) evalInContext(cmd *cobra.Command, o evalOptions) (err error) {
	x := o.shown.InContextOptions
	if x.Names, err = wordsOf(o.shown.names); err != nil {
		return usage(err)
	}
	x.Item, x.Out = strings.ReplaceAll(x.Item, `\n`, "\n"), o.out
	if run := o.run; run != "" {
		switch {
		case !rundir.Exists(run):
			return usage(fmt.Errorf("%s holds no run", run))
		case !rundir.Has(run, rundir.Synthetic):
			return usage(fmt.Errorf("%s holds no synthetic set yet: let the run end first (--resume)", run))
		case o.out != "":
			return usage(errors.New("--out cannot be combined with --run, whose folder gets the figures"))
		}
		x.Out, o.flags.file = run, filepath.Join(run, rundir.Config)
		o.synthetic = filepath.Join(run, rundir.Synthetic)
	}
	if x.Out != "" {
		if err := checkFolder(x.Out); err != nil {
			return err
		}
	}
	o.flags.name(map[string]string{"data.private": o.private, "model.path": o.model})
	c, err := o.flags.load()
	if err != nil {
		return err
	}
	if c.Model.Path == configs.Trained {
		return usage(errors.New("model.path is \"trained\": name the language model that is asked (--model)"))
	}
	c.Model.Device = cmp.Or(a.device, c.Model.Device)
	c.Downstream.Model = configs.Default().Downstream.Model // no small model is needed
	p := a.progress()
	x.Told = p.stages()
	e, err := x.Evaluate(cmd.Context(), c, o.synthetic)
	p.stop()
	if err != nil {
		return err
	}
	return a.emit(e, func(w io.Writer) { inContextTable(w, e) })
}

func inContextTable(w io.Writer, e *incontext.Outcome) {
	fmt.Fprintf(w, "%s was asked for the labels of %d test texts (%d labels)\n\n", e.Model, e.Texts, len(e.Labels))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "demonstrations of\tshown\taccuracy %\tmacro F1 %\tcalibrated accuracy %\tmacro F1 %")
	for _, r := range e.Results {
		fmt.Fprintf(t, "%s\t%d\t%.1f ± %.1f\t%.1f\t%.1f ± %.1f\t%.1f\n", r.Name, r.Shots, 100*r.Accuracy,
			100*r.AccuracySD, 100*r.MacroF1, 100*r.Calibrated, 100*r.CalibratedSD, 100*r.CalibratedF1)
	}
	t.Flush()
	fmt.Fprintln(w, "\nMean ± standard deviation over sets of demonstrations. Test texts are read without noise.")
}
