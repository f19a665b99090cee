package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/internal/rundir"
	"popri/run/lanfl"
)

// lanflOptions are the flags of the verb lanfl.
type lanflOptions struct {
	lanfl.Options
	flags          configFlags
	private, model string
	names          []string
	unsafe         bool
}

func (a *app) lanfl() *cobra.Command {
	var o lanflOptions
	cmd := &cobra.Command{
		Use:   "lanfl --private CLIENTS --unsafe --out DIR",
		Short: "Exchange examples that a model writes from participants' own texts (LanFL), which protects nobody",
		Long: `LanFL, to compare with: train clients are pooled into participants, who hold labelled texts. Each participant shows k of its texts
to a language model, which writes one more at temperature 0; drops what is too like one of its texts (BLEU); and shares the rest.
Each then finds how many of its own texts to show for the fewest wrong answers on texts that it holds back, and how many of
these to replace by others' samples. With --reasoning, the model also says why a text has its label, and texts are shown
with that.

This is not private in the sense of this program. A text is protected only by the choice of k texts among n, which gives
δ = k/(n + 1) for each sample; publishing k texts as they are gives the same. So the command reads train clients' texts, writes what
a model makes of them, and needs --unsafe. It writes shared.parquet and lanfl.json.`,
		Example: "  popri lanfl --private reviews.parquet --model smollm2 --unsafe --out lanfl --name pos=positive " +
			"--name neg=negative",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runLanFL(cmd.Context(), o) },
	}
	o.flags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.private, "private", "",
		"Parquet file of clients with labels (default: the configuration's data.private)")
	f.StringVar(&o.model, "model", "", "language model that writes and answers (default: the configuration's model.path)")
	f.BoolVar(&o.unsafe, "unsafe", false,
		"train clients' texts may be shown to the model, and what it writes may be shared")
	f.StringVar(&o.Out, "out", "", "folder for the samples and the figures")
	f.IntVar(&o.Participants, "participants", 5, "train clients are pooled into as many participants, at random")
	f.IntVar(&o.Records, "records", 3, "k, the texts behind a sample")
	f.IntVar(&o.Samples, "samples", 20, "samples that each participant writes")
	f.Float64Var(&o.BLEU, "bleu", 0.5, "BLEU with one of the participant's texts above which a sample is dropped")
	f.BoolVar(&o.Reasoning, "reasoning", false, "let the model say why a text has its label, and show texts with that")
	f.IntSliceVar(&o.Shots, "shots", []int{0, 1, 2, 4}, "numbers of own texts to show that each participant tries")
	f.IntVar(&o.Repeats, "repeats", 3, "draws of texts behind each cost")
	f.IntVar(&o.Tests, "test-texts", 20, "texts that a participant holds back at most, by which it decides")
	f.StringArrayVar(&o.names, "name", nil, "the word that stands for a label, such as pos=positive; may be repeated")
	return cmd
}

// runLanFL lets participants exchange examples.
func (a *app) runLanFL(ctx context.Context, o lanflOptions) error {
	switch {
	case !o.unsafe:
		return usage(errors.New("what it writes is made of train clients' texts and protects nobody; " +
			"--unsafe says that this may be"))
	case o.Out == "":
		return usage(errors.New("--out names the folder for the samples"))
	case rundir.Exists(o.Out):
		return usage(fmt.Errorf("%s holds a run: name another folder", o.Out))
	}
	var err error
	if o.Names, err = wordsOf(o.names); err != nil {
		return usage(err)
	}
	o.flags.name(map[string]string{"data.private": o.private, "model.path": o.model})
	c, err := o.flags.load()
	if err != nil {
		return err
	}
	c.Model.Device = cmp.Or(a.device, c.Model.Device)
	c.Downstream.Model = configs.Default().Downstream.Model // no small model is needed
	p := a.progress()
	o.Told = p.stages()
	e, err := lanfl.Federate(ctx, c, o.Options)
	p.stop()
	if err != nil {
		return err
	}
	return a.emit(e, func(w io.Writer) { lanflTable(w, e) })
}

func lanflTable(w io.Writer, e *lanfl.Outcome) {
	fmt.Fprintln(w, e.Private)
	fmt.Fprintln(w, "\nparticipant\ttexts\tshared\ttoo like\tmalformed\twrong without %\twrong with own %\town\twrong "+
		"with others' %\tof others")
	for i, p := range e.Participants {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%d\t%.1f\t%d\n", i+1, p.Texts, p.Shared, p.TooLike, p.Malformed,
			100*p.ZeroShot, 100*p.Local, p.Shots, 100*p.Best, p.Synthetic)
	}
	fmt.Fprintf(w,
		"\n%s answers wrong, mean over participants: %.1f %% without texts, %.1f %% with own ones, %.1f %% with "+
			"others' samples among them; others' samples help %d of %d. Each participant chose by these figures, so "+
			"they flatter.\n", e.Model,
		100*e.ZeroShot,
		100*e.Local, 100*e.Best, e.Helped, len(e.Participants))
}
