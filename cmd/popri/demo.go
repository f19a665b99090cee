package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/configs/worlds"
	"popri/eval/downstream"
	"popri/internal/modelcache"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods"
	"popri/run"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/study/cost"
)

// demoOptions are the flags of the verb demo.
type demoOptions struct {
	choice          worldFlags
	own             ownFlag
	live            watchFlags
	track           trackFlag
	out, preset     string
	rounds, minutes int
	epsilon         float64
	seed            uint64
	set, rows       []string
	dry             bool
}

func (a *app) demo() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo [--world NAME] [--out DIR] [--rounds N] [--epsilon E] [--seed S] [--model NAME]",
		Short: "The whole loop on the embedded default or other data, with table and report",
		Long: `Tunes the small model that comes with popri to write like the clients of the embedded default, whose texts it never
sees, then trains small models on what it wrote and tests them on private test clients.

The clients are stretches of comments of Go's compiler, linker and assembler, read from the installed toolchain. An interrupted
demo continues where it stopped when it is called again with the same --out.

--model smollm2 takes SmolLM2-135M-Instruct as the generator, with the preset demo-smollm2; make demo MODEL=smollm2 fetches
it first. --encoder minilm compares texts by all-MiniLM-L6-v2, the paper's encoder, which make demo ENCODER=minilm fetches;
any folder of sentence-transformers with a BERT, RoBERTa, XLM-RoBERTa, MPNet or T5 encoder will do.

` + trackHelp + `

--private and --public run on any file of clients with any files of public text, --world on other data. Unless --model and
--small name others, both models are then trained on the public text (minutes, once) and kept in the user's cache folder.

The first three worlds need no file. The others read files that do not come with popri: the clients in the file that the list
names, and the public text in ` + strings.Join(worlds.Books, " and ") + `. --data names their folder; without it, that is
$` + worlds.FolderVariable + `, or the first of ` + strings.Join(worlds.Folders, " and ") + ` that is there. A demo whose files are missing says which, and
does nothing. docs/data.md says how to make such files. Worlds:
` + worldList(),
		Example: "  popri demo --out runs/demo\n  popri demo --world congress --seed 1\n" +
			"  popri demo --private clients.parquet --public public.jsonl --epsilon 1\n" +
			"  popri demo --private clients.parquet --public public.jsonl --epsilon 1 --dry-run\n" +
			"  popri demo --out runs/eps1 --epsilon 1 --seed 2 --json\n" +
			"  popri demo --report-to tensorboard",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDemo(cmd, o) },
	}
	o.choice.add(cmd)
	o.own.add(cmd)
	addDryRun(cmd, &o.dry)
	o.live.add(cmd)
	cmd.Flags().StringVar(&o.out, "out", filepath.Join("runs", "demo"),
		"folder of the run; the default takes the next free name")
	cmd.Flags().IntVar(&o.rounds, "rounds", 0, "rounds (default: the preset's)")
	cmd.Flags().IntVar(&o.minutes, "minutes", 0, "about how long the run may take on this machine: it has fewer texts, then "+
		"fewer rounds, then fewer updates of the small models, where all would take longer (default: no bound)")
	cmd.Flags().Float64Var(&o.epsilon, "epsilon", 0, "privacy budget (default: the preset's)")
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "seed of prompts, samples and training (default: the preset's)")
	o.choice.addModels(cmd)
	cmd.Flags().StringVar(&o.preset, "preset", configs.DefaultPreset, "settings to start from; paper is the paper's loop")
	cmd.Flags().StringArrayVar(&o.set, "set", nil,
		"change a key of the configuration: --set dpo.rejected_rank=7; may be repeated")
	addRows(cmd, &o.rows)
	o.track.add(cmd)
	return cmd
}

// settings are the preset, "" for the preset of the world and the model, and the keys that flags set.
func (o *demoOptions) settings(cmd *cobra.Command) (preset string, settings []string) {
	settings = slices.Clone(o.set)
	for _, f := range []struct{ flag, setting string }{{"rounds", fmt.Sprintf("trainer.rounds=%d", o.rounds)},
		{"epsilon", fmt.Sprintf("privacy.epsilon=%g", o.epsilon)}, {"seed", fmt.Sprintf("seed=%d", o.seed)}} {
		if cmd.Flags().Changed(f.flag) {
			settings = append(settings, f.setting)
		}
	}
	if cmd.Flags().Changed("preset") {
		preset = o.preset
	}
	return preset, settings
}

// command is a command line of the same demo in another folder, with its ε and seed.
func (o *demoOptions) command(cmd *cobra.Command, c configs.Config) string {
	words := typed(cmd, "out", "watch", "allow-stop", "report-to", "epsilon", "seed")
	return quote.Shell(append(words, "--epsilon", fmt.Sprintf("%g", c.Privacy.Epsilon), "--seed", fmt.Sprint(c.Seed))...)
}

// runDemo does the whole loop.
func (a *app) runDemo(cmd *cobra.Command, o demoOptions) (err error) {
	options, world, err := o.choice.options(o.settings(cmd))
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("out") {
		if world.Name != worlds.Default {
			o.out += "-" + world.Name
		}
		o.out = freeFolder(o.out)
	}
	c, err := configs.Load(options)
	if err != nil {
		return usage(err)
	}
	c.Model.Threads = cmp.Or(a.threads, c.Model.Threads)
	resume := rundir.Exists(o.out)
	if err := cost.CheckRows(*c, o.rows); err != nil && !resume {
		return err
	}
	if o.minutes < 0 {
		return usage(fmt.Errorf("--minutes %d, want 0 (no bound) or more", o.minutes))
	}
	shortened := ""
	if o.minutes > 0 && !resume {
		if *c, shortened, err = a.fitted(*c, o.rows, o.minutes); err != nil {
			return err
		}
	}
	if !resume {
		if err := o.own.check(cmd, *c); err != nil {
			return err
		}
	}
	if o.dry {
		return a.dryRun(*c, o.out, true, o.rows...)
	}
	if err := checkFolder(o.out); err != nil {
		return err
	}
	if resume {
		a.say("%s has a run already; continuing it with its configuration", o.out)
	} else if err := evaluable(*c); err != nil {
		return err
	}
	ready, err := a.prepared(cmd, *c)
	if err != nil {
		return err
	}
	stop, err := a.watchRun(cmd, o.live, o.out)
	if err != nil {
		return err
	}
	defer func() { stop(err) }()
	return a.finish(cmd, quote.Shell(append(typed(cmd, "out"), "--out", o.out)...), run.Options{Config: ready, Dir: o.out,
		Resume: resume, Evaluates: true, Title: methods.Of(*c).Title + " on " + world.Title,
		Command: o.command(cmd, *c), Shortened: shortened, Trackers: o.track.names}, o.rows...)
}

// embeddedModel is the name of the generator that comes with the program.
const embeddedModel = "embedded"

// demoModels are the generators that the demo has presets for.
func demoModels() []string {
	names := []string{embeddedModel}
	for _, s := range modelcache.Sources {
		if !s.Encodes {
			names = append(names, s.Name)
		}
	}
	return names
}

// demoPreset returns the preset of a demo with that generator.
func demoPreset(model string) (string, error) {
	s, ok := modelcache.Find(model)
	if !ok {
		if _, err := assembly.GeneratorDir(model); err != nil {
			return "", usage(fmt.Errorf("--model %s is none of %s: %w", model, joined(demoModels()), err))
		}
		return configs.DefaultPreset + "-model", nil
	}
	if s.Encodes {
		return "", usage(fmt.Errorf("--model %s is an encoder, which --encoder takes", model))
	}
	if _, err := s.Installed(); err != nil {
		return "", usage(err)
	}
	return configs.DefaultPreset + "-" + model, nil
}

// fitted returns the configuration of a run with fewer rounds and texts, which takes about the given minutes, and what
// that changed, "" for nothing.
func (a *app) fitted(c configs.Config, rows []string, minutes int) (fitted configs.Config, shortened string, err error) {
	c.Model.Device = cmp.Or(a.device, c.Model.Device)
	if err := assembly.SetCompute(c); err != nil {
		return c, "", err
	}
	_, seconds, err := speed(c)
	if err != nil {
		return c, "", err
	}
	fitted, flops, err := cost.Fit(c, rows, 60*float64(minutes)/seconds(1))
	if err != nil {
		return c, "", err
	}
	size := func(c configs.Config) string {
		return fmt.Sprintf("%s, %d texts and %d updates of a small model", quote.Count(c.Trainer.Rounds, "round", ""),
			c.Synthetic.Texts, c.Downstream.Steps)
	}
	if size(fitted) != size(c) {
		shortened = fmt.Sprintf("%s instead of %s (--minutes %d)", size(fitted), size(c), minutes)
	}
	switch took := roughly(seconds(flops)); {
	case seconds(flops) > 60*float64(minutes):
		a.say("about %s on this machine for %s, the least that --minutes allows", took, size(fitted))
	case shortened == "":
		a.say("about %s on this machine for %s", took, size(c))
	default:
		a.say("about %s on this machine for %s; all %s would take longer than --minutes %d", took, size(fitted),
			size(c), minutes)
	}
	return fitted, shortened, nil
}

// finish trains, evaluates if the run is opened for that, by these rows, writes the report and prints the results. again
// is the command that continues the run.
func (a *app) finish(cmd *cobra.Command, again string, o run.Options, rows ...string) error {
	o.Warn, o.Listen, o.Device = a.warn, a.events, a.device
	begun := time.Now()
	s, err := run.Open(cmd.Context(), o)
	if err != nil {
		return a.stopped(err, o.Dir, again)
	}
	defer s.Close()
	if o.Evaluates {
		a.say("read data and models in %s: %d train clients, noise multiplier %.4g",
			time.Since(begun).Round(100*time.Millisecond), len(s.Data.Private.Split("train")), s.Sigma)
	}
	ended := s.Train(cmd.Context()) // the budget's error, where that ended the rounds
	if ended != nil && !refused(ended) {
		return a.stopped(ended, o.Dir, again)
	}
	var e *evaluation.Outcome
	if o.Evaluates {
		if e, err = s.Evaluate(cmd.Context(), a.evaluating(), rows...); err != nil {
			return a.stopped(err, o.Dir, again)
		}
	}
	path, err := reporting.Write(o.Dir)
	if err != nil {
		return a.stopped(err, o.Dir, again)
	}
	return cmp.Or(a.summary(o.Dir, path, e), ended)
}

// evalProgress counts the work on all small models together, in thousands of tokens of a forward pass.
func (a *app) evalProgress() evaluator.Progress {
	p := a.progress()
	var mutex sync.Mutex
	return evaluator.Progress{Begin: func() { p.begin("small models (k tokens)") }, Done: p.end,
		Updated: func(done, planned int) { p.update(done/1000, planned/1000) },
		End: func(r downstream.Result) {
			if len(r.Curve) == 0 {
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			a.say("small model on %-44s %6d texts, best of %d steps: %d", r.Name, r.Texts, r.Curve[len(r.Curve)-1].Step,
				r.BestStep)
		}}
}

// freeFolder returns dir if no finished run is in it, else the first of dir-2, dir-3, … without one. A run that is
// unfinished is continued.
func freeFolder(dir string) string {
	name := dir
	for i := 2; rundir.Exists(name); i++ {
		if e, _ := evaluation.Read(name); e == nil {
			break
		}
		name = fmt.Sprintf("%s-%d", dir, i)
	}
	return name
}
