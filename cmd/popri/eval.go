package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/run"
	"popri/run/evaluator"
	"popri/run/reporting"
)

// evalOptions are the flags of the verb eval.
type evalOptions struct {
	flags                                            configFlags
	shown                                            inContextFlags
	track                                            trackFlag
	protect                                          float64
	task, run, synthetic, private, model, small, out string
	rows                                             []string
	reference                                        bool
}

func (a *app) eval() *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval --run DIR | --synthetic FILE [--private FILE] [--model DIR]",
		Short: "Train a small model on text and test it on private test clients",
		Long: `Trains the small model on a set of texts and tests it on the private test clients. It prints next-token accuracy and
perplexity, the same for the model before training (ε = 0) and after training on the private text itself (ε = ∞), and the
share of the gap between these two that the texts close. With downstream.task=classification, the small model learns the
labels of texts instead: accuracy and macro F1 on the test clients' labels, and ε = 0 is the model trained on data.public.

--run evaluates a finished run's synthetic set and compares it with the untuned model's text and with public text; the
figures go into the run's eval.json and report.html. --synthetic evaluates any file with one text per row or line: Parquet
(column text, and label for a classification), JSON lines or plain text. A folder is a trained model, such as the result
of a method that trains the small model, which is tested as it is. With --out, the figures go into eval.json in that
folder. The configuration's downstream.* keys set steps and learning rate.

--protect-test E protects the test clients, too: each answers with the accuracies of the models on its own texts, and only their
sum is seen, with noise for ε = E. It spends that once, in a ledger of its own, in protected-eval in the run's folder or --out.
` + inContextHelp + `

` + trackHelp + `
The small models' figures are named downstream/accuracy/… and downstream/perplexity/… (macro_f1 for a classification);
the private text's own row is left out. With --synthetic the flag needs --out.`,
		Example: "  popri eval --run runs/eps1\n  popri eval --run runs/eps1 --report-to mlflow\n" +
			"  popri eval --synthetic texts.parquet --private clients.parquet " +
			"--model small --set downstream.steps=300 --json\n" +
			"  popri eval --task in-context --synthetic texts.parquet --private clients.parquet --model smollm2 " +
			"--shots 2,6",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runEval(cmd, o) },
	}
	o.flags.add(cmd)
	cmd.Flags().StringVar(&o.task, "task", "", "in-context: test labelled texts as demonstrations for a language model")
	o.shown.add(cmd.Flags())
	cmd.Flags().Float64Var(&o.protect, "protect-test", 0,
		"ε for the test clients, whose noised mean accuracy is all that is seen")
	cmd.Flags().StringVar(&o.run, "run", "", "folder of a finished run")
	cmd.Flags().StringVar(&o.synthetic, "synthetic", "",
		"file of texts to evaluate, or folder of a model to test as it is")
	cmd.Flags().StringVar(&o.private, "private", "",
		"Parquet file of clients, or godoc (default: the configuration's data.private)")
	cmd.Flags().StringVar(&o.model, "model", "", "folder of the small model, or embedded (default: the "+
		"configuration's downstream.model); with --task in-context, the language model")
	cmd.Flags().StringVar(&o.out, "out", "", "with --synthetic: folder for the figures and what --report-to writes")
	cmd.Flags().BoolVar(&o.reference, "reference-private", false, "with --run: declare the train clients' texts to be "+
		"public or test data, on which a small model is trained (ε = ∞); the run's configuration keeps the declaration")
	smallFlag(cmd, &o.small)
	addRows(cmd, &o.rows)
	o.track.add(cmd)
	return cmd
}

// addRows adds the flag that names rows of a run's table.
func addRows(cmd *cobra.Command, rows *[]string) {
	cmd.Flags().StringSliceVar(rows, "rows", nil, "rows of the table between ε = 0 and ε = ∞, each of which trains a small "+
		"model: untuned, untrained, the method's name, written, selected, public_all, public_domain (default: all)")
}

// runEval tests texts, or a run's product, by a small model.
func (a *app) runEval(cmd *cobra.Command, o evalOptions) error {
	if (o.run == "") == (o.synthetic == "") {
		return usage(errors.New("name either --run or --synthetic"))
	}
	if o.task != "" && o.task != evaluator.InContext {
		return usage(fmt.Errorf("--task is %q, must be %q: other tasks are downstream.task's", o.task,
			evaluator.InContext))
	}
	if name := changed(cmd, "config", "preset"); name != "" && o.run != "" {
		return usage(fmt.Errorf("--%s cannot be combined with --run, which has its own configuration", name))
	}
	if o.task != "" {
		if name := changed(cmd, "reference-private", "report-to", "protect-test", "rows", "small"); name != "" {
			return usage(fmt.Errorf("--%s cannot be combined with --task %s", name, o.task))
		}
		return a.evalInContext(cmd, o)
	}
	if cmd.Flags().Changed("protect-test") {
		if name := changed(cmd, slices.Concat(inContextOnly, []string{"reference-private", "report-to", "rows"})...); name != "" {
			return usage(fmt.Errorf("--%s cannot be combined with --protect-test", name))
		}
		return a.evalProtected(cmd, o)
	}
	if name := changed(cmd, inContextOnly...); name != "" {
		return usage(fmt.Errorf("--%s needs --task %s", name, evaluator.InContext))
	}
	if o.reference && o.run == "" {
		return usage(errors.New("--reference-private needs --run; with --synthetic, --set " +
			"eval.reference_private=true says it"))
	}
	if len(o.track.names) > 0 && o.run == "" && o.out == "" {
		return usage(errors.New("--report-to with --synthetic needs --out, the folder of what is shown"))
	}
	if len(o.rows) > 0 && o.run == "" {
		return usage(errors.New("--rows needs --run"))
	}
	if o.run != "" {
		if name := changed(cmd, "private", "model", "out"); name != "" {
			return usage(fmt.Errorf("--%s cannot be combined with --run, which has its own configuration", name))
		}
		return a.evalRun(cmd, o)
	}
	if o.out != "" {
		if err := checkFolder(o.out); err != nil {
			return err
		}
	}
	return a.evalTexts(cmd, o)
}

// config is the configuration with the clients and the small model that the flags name.
func (o *evalOptions) config() (configs.Config, error) {
	of, err := smallSettings(o.small, o.flags.set...)
	if err != nil {
		return configs.Config{}, err
	}
	o.flags.set = append(of, o.flags.set...)
	o.flags.name(map[string]string{"data.private": o.private, "downstream.model": o.model})
	if o.run != "" {
		if err := o.ofSmall(); err != nil {
			return configs.Config{}, err
		}
		c, err := configs.Load(configs.LoadOptions{File: filepath.Join(o.run, rundir.Config), Set: o.flags.set})
		if err != nil {
			return configs.Config{}, usage(err)
		}
		return *c, nil
	}
	return o.flags.load()
}

// ofSmall refuses settings of more than the small model, for a run has its own configuration.
func (o *evalOptions) ofSmall() error {
	for _, setting := range o.flags.set {
		if !strings.HasPrefix(setting, "downstream.") {
			return usage(fmt.Errorf("--set %s cannot be combined with --run, which has its own configuration: only the small "+
				"model can be another (downstream.…)", setting))
		}
	}
	return nil
}

// evalTexts trains the small model on texts of a file.
func (a *app) evalTexts(cmd *cobra.Command, o evalOptions) error {
	c, err := o.config()
	if err != nil {
		return err
	}
	if slices.Contains(c.Borrowed(), "downstream.model") && o.model != embeddedModel && o.small != embeddedModel {
		return usage(fmt.Errorf("data.private is %s, and the small model is the embedded one, which was trained on text "+
			"of Go's source code: name one by --small, such as smollm2, or by --model; --small %s takes it nevertheless",
			c.Data.Private, embeddedModel))
	}
	if c.Model.Path == configs.Trained {
		c.Model.Path = configs.Default().Model.Path // no generator is needed
	}
	if c, err = a.prepared(cmd, c); err != nil {
		return err
	}
	e, err := evaluator.Texts(cmd.Context(), c, o.synthetic,
		evaluator.TextsOptions{Options: a.evaluating(), Out: o.out, Trackers: o.track.names, Warn: a.warn})
	if err != nil {
		return err
	}
	return a.emit(e, func(w io.Writer) { evaluationTable(w, e) })
}

func (a *app) evalRun(cmd *cobra.Command, o evalOptions) error {
	dir := o.run
	options := a.evaluating()
	others := o.flags.set
	if c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)}); err == nil {
		others = append(slices.Clone(others), "downstream.task="+c.Downstream.Task)
	}
	var err error
	if options.By, err = smallSettings(o.small, others...); err != nil {
		return err
	}
	if err := o.ofSmall(); err != nil {
		return err
	}
	options.By = append(options.By, o.flags.set...)
	if rundir.Exists(dir) {
		if err := atomicfile.Check(filepath.Join(dir, rundir.Eval)); err != nil {
			return usage(err)
		}
	}
	s, err := run.Open(cmd.Context(), run.Options{Dir: dir, Resume: true, Device: a.device,
		Listen: a.events, Trackers: o.track.names, Evaluates: true, Warn: a.warn})
	if err != nil {
		return err
	}
	defer s.Close()
	if o.reference {
		if err := s.DeclareReference(); err != nil {
			return err
		}
	}
	e, err := s.Evaluate(cmd.Context(), options, o.rows...)
	if err != nil {
		return err
	}
	path, err := reporting.Write(dir)
	if err != nil {
		return err
	}
	if other := e.Differs(s.Config); len(options.By) == 0 && other != nil {
		a.say("the figures are of another small model than the configuration's: %s", strings.Join(other, ", "))
	}
	a.say("report: %s", path)
	return a.emit(e, func(w io.Writer) { evaluationTable(w, e) })
}
