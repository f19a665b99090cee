package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/datasets"
	"popri/datasets/godoc"
	"popri/internal/rundir"
	"popri/internal/version"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/trainer/pretrain"
)

// pretrainOptions are the flags of the verb pretrain.
type pretrainOptions struct {
	pretrain.Options
	out, role, tokenizerDir, goroot, dtype, shape string
	files                                         []string
	vocab                                         int
}

func (a *app) pretrain() *cobra.Command {
	var o pretrainOptions
	cmd := &cobra.Command{
		Use:   "pretrain --out DIR",
		Short: "Train a tokenizer and a small GPT on public text alone",
		Long: `Trains a tokenizer and a small GPT on files of public text (--public), or the models that popri ships on the
public part of the embedded default (the comments of the Go toolchain). One in a hundred sources, or stretches of texts,
is held out; the loss on these is reported and stands in provenance.json next to the weights, with the command and the
text's hash. A file with columns of clients is refused.

On the embedded default, the role decides the corpus: "generator" uses all public text (W); "device", the small model's
starting point (ε = 0), uses the part that prompts quote (Ω). All texts of a file are for both roles.`,
		Example: "  popri pretrain --public books.parquet --public notes.jsonl --role device --out small --layers 2 " +
			"--width 128 --steps 1200\n" +
			"  popri pretrain --public books.parquet --shape distilgpt2 --role device --out small --batch 4 --steps " +
			"20000\n  popri pretrain --role generator --out model/shipped/godoc/generator --layers 6 --width 256 " +
			"--heads 4 --steps 3300\n" +
			"  popri pretrain --role device --tokenizer model/shipped/godoc/generator --out " +
			"model/shipped/godoc/device --layers 2 --width 128 --heads 4 --steps 1500",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runPretrain(cmd, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "folder for the model and its tokenizer")
	f.StringVar(&o.role, "role", "generator", "generator (trained on all public text) or device (on what prompts quote)")
	f.StringArrayVar(&o.files, "public", nil, "file of public text: Parquet, JSON lines or plain lines; may be "+
		"repeated (default: godoc, the embedded default)")
	f.StringVar(&o.tokenizerDir, "tokenizer", "", "folder of an existing tokenizer (default: train one)")
	f.StringVar(&o.goroot, "goroot", "", "Go toolchain whose source is read (default: the installed one)")
	f.StringVar(&o.dtype, "dtype", "bfloat16", "type of activations: float32 or bfloat16; weights are float32")
	f.StringVar(&o.shape, "shape", "", "architecture by name, for --layers, --width, --heads, --context and --vocab: "+
		strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	f.IntVar(&o.vocab, "vocab", 4096, "size of the vocabulary")
	f.IntVar(&o.Layers, "layers", 6, "blocks")
	f.IntVar(&o.Width, "width", 256, "hidden size")
	f.IntVar(&o.Heads, "heads", 4, "attention heads")
	f.IntVar(&o.Context, "context", 256, "most tokens of a sequence")
	f.IntVar(&o.Batch, "batch", 16, "sequences in a step")
	f.IntVar(&o.Steps, "steps", 3300, "steps of training")
	f.Float64Var(&o.LearningRate, "learning-rate", 1e-3, "peak learning rate")
	f.Float64Var(&o.MinLearningRate, "min-learning-rate", 5e-5, "learning rate at the end of the cosine")
	f.IntVar(&o.Warmup, "warmup", 100, "steps of warm-up")
	f.Float64Var(&o.WeightDecay, "weight-decay", 0.1, "decoupled weight decay")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of weights and order")
	f.IntVar(&o.SaveEvery, "save-every", 250, "steps between two writes of the weights")
	return cmd
}

// runPretrain trains a tokenizer and a small GPT.
func (a *app) runPretrain(cmd *cobra.Command, o pretrainOptions) error {
	if err := pretrainShape(cmd, o.shape); err != nil {
		return usage(err)
	}
	if o.role != pretrain.Generator && o.role != pretrain.Device {
		return usage(fmt.Errorf("--role %q is neither generator nor device", o.role))
	}
	if o.goroot != "" && len(o.files) > 0 {
		return usage(errors.New("--goroot belongs to the embedded default; do not combine it with --public"))
	}
	var known bool
	if o.Compute, known = map[string]tensor.DType{"float32": tensor.Float32, "bfloat16": tensor.BFloat16}[o.dtype]; !known {
		return usage(fmt.Errorf("--dtype %q is neither float32 nor bfloat16", o.dtype))
	}
	if err := checkFolder(o.out); err != nil {
		return err
	}
	if _, ours := pretrain.ReadProvenance(o.out); rundir.Has(o.out, "config.json") && !ours {
		return usage(fmt.Errorf("%s holds a model that popri pretrain did not make: name another folder", o.out))
	}
	public, goVersion, err := publicText(o.files, o.goroot)
	if err != nil {
		return err
	}
	texts := pretrain.Texts(public, o.role)
	tok, err := pretrain.Tokenizer(texts, o.tokenizerDir, o.vocab)
	if err != nil {
		return err
	}
	c := pretrain.NewCorpus(texts, tok)
	a.say("corpus: %s, %d texts, %d tokens, %d texts held out", public.Name, len(c.Train), c.Tokens(), len(c.Held))
	recipe := pretrain.Recipe{Role: o.role, Options: o.Options}
	p := recipe.Provenance(tok.VocabSize(), public, version.Program(), goVersion, o.files...)
	state := filepath.Join(o.out, "training.safetensors")
	p, err = pretrain.Make(cmd.Context(), o.out, state, c, tok, o.Options, p, func(st pretrain.Stats) {
		left := float64(o.Steps-st.Step) * float64(o.Batch*o.Context) / st.TokensPerSec
		a.say("step %5d/%d  epoch %d  loss %.4f  held-out loss %.4f accuracy %.4f  %.0f tokens/s  %.0f s left",
			st.Step, o.Steps, st.Epoch, st.Loss, st.HeldLoss, st.HeldAccuracy, st.TokensPerSec, left)
	})
	if err != nil {
		return err
	}
	return a.emit(p, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d parameters, held-out loss %.4f, accuracy %.2f %%\n", o.out, p.Parameters,
			p.HeldLoss, 100*p.HeldAccuracy)
	})
}

// shapes are published architectures as flags.
var shapes = map[string]map[string]string{
	"distilgpt2": {"layers": "6", "width": "768", "heads": "12", "context": "1024", "vocab": "50257"},
	"gpt2":       {"layers": "12", "width": "768", "heads": "12", "context": "1024", "vocab": "50257"},
}

// pretrainShape sets the flags of an architecture that were not given.
func pretrainShape(cmd *cobra.Command, name string) error {
	if name == "" {
		return nil
	}
	flags, ok := shapes[name]
	if !ok {
		return fmt.Errorf("--shape %q is unknown: %s", name, strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	}
	for flag, value := range flags {
		if cmd.Flags().Changed(flag) {
			continue
		}
		if err := cmd.Flags().Set(flag, value); err != nil {
			return err
		}
	}
	return nil
}

// publicText reads the files of public text, or the public half of the embedded default where there are none, with the
// Go release that it is from.
func publicText(files []string, goroot string) (public datasets.Public, goVersion string, err error) {
	if len(files) == 0 {
		corpus, err := godoc.Load(goroot)
		if err != nil {
			return public, "", err
		}
		return corpus.Public, corpus.GoVersion, nil
	}
	if err := assembly.CheckNoClients(files...); err != nil {
		return public, "", err
	}
	public, err = assembly.ReadPublic(files...)
	return public, runtime.Version(), err
}
