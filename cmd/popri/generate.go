package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/internal/fault"
	"popri/model/lm"
	"popri/model/tokenizer"
	"popri/run/assembly"
	"popri/run/textgen"
)

// generateOptions are the flags of generate.
type generateOptions struct {
	model, adapter, prompt, prompts, out, dtype, cache string
	textgen.Options
}

// generateResult is what generate prints with --json.
type generateResult struct {
	Prompts int              `json:"prompts"`
	Each    int              `json:"samples_per_prompt"`
	Tokens  int              `json:"tokens"`
	Seconds float64          `json:"seconds"` // without loading
	Rate    float64          `json:"tokens_per_second"`
	Out     string           `json:"out,omitempty"`
	Samples []textgen.Sample `json:"samples,omitempty"` // where no --out is given
}

func (a *app) generate() *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "generate --model DIR [--adapter DIR] --prompts FILE|--prompt TEXT --samples J",
		Short: "Draw samples for prompts",
		Long: `Draws J samples for each prompt. Prompts are JSON lines: {"prompt": "text"}, {"ids": [1, 2, 3]}, or a conversation, {"messages":
[{"role": "user", "content": "…"}]} or the same list as the prompt, which the model's chat template writes; "-" reads them from
standard input. Samples go to standard output as JSON lines, or to --out as JSON lines or Parquet, by its extension.
A prompt's samples depend on the seed and not on the other prompts in the file. Temperature 0 always takes the likeliest
token.`,
		Example: "  popri generate --prompts prompts.jsonl --samples 10 --out samples.parquet\n" +
			"  popri generate --model gpt2 --adapter runs/eps1/adapter --prompts prompts.jsonl " +
			"--samples 1 --temperature 0\n  popri generate --model runs/demo/small --prompt Fellow",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usage(err)
			}
			return a.runGenerate(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "embedded",
		"Hugging Face folder, embedded for the generator that comes with the program, or smollm2 where that was fetched")
	f.StringVar(&o.adapter, "adapter", "", "PEFT folder of an adapter to merge into the model")
	f.StringVar(&o.prompts, "prompts", "", "file of prompts, JSON lines")
	f.StringVar(&o.prompt, "prompt", "", "text of one prompt, in place of a file")
	f.StringVar(&o.out, "out", "", "file to write, .jsonl or .parquet (default: standard output)")
	f.StringVar(&o.dtype, "dtype", "auto", "type of weights and products: auto (bfloat16 if the machine computes "+
		"it fast), float32 or bfloat16")
	f.StringArrayVar(&o.Stop, "stop", nil, "text that ends a sample and is cut off it; may be repeated")
	f.IntVar(&o.Samples, "samples", 1, "samples of each prompt (J)")
	f.Float64Var(&o.Temperature, "temperature", 1, "divides the logits; 0 takes the likeliest token")
	f.Float64Var(&o.TopP, "top-p", 1, "keep the likeliest tokens up to this total probability")
	f.IntVar(&o.TopK, "top-k", 0, "keep this many of the likeliest tokens (0: all)")
	f.IntVar(&o.MaxNewTokens, "max-new-tokens", 64, "most tokens of a sample")
	f.IntVar(&o.MinNewTokens, "min-new-tokens", 0, "least number of tokens of a sample")
	f.BoolVar(&o.IgnoreEOS, "ignore-eos", false, "do not stop at the model's end-of-text token")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the samples")
	f.StringVar(&o.cache, "cache", "1 GiB",
		"memory for the samples' keys and values, which limits how many samples are drawn at once")
	return cmd
}

// check validates the flags and reports all impossible values.
func (o *generateOptions) check() error {
	var problems []string
	want := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	want(o.model != "", "--model names no folder")
	want((o.prompts == "") != (o.prompt == ""), "name either --prompts, a file, or --prompt, a text")
	want(o.Samples >= 1, "--samples is %d, want 1 or more", o.Samples)
	want(o.Temperature >= 0, "--temperature is %g, want 0 or more", o.Temperature)
	want(o.TopP > 0 && o.TopP <= 1, "--top-p is %g, want more than 0 and at most 1", o.TopP)
	want(o.TopK >= 0, "--top-k is %d, want 0 or more", o.TopK)
	want(o.MaxNewTokens >= 1, "--max-new-tokens is %d, want 1 or more", o.MaxNewTokens)
	want(o.MinNewTokens >= 0 && o.MinNewTokens <= o.MaxNewTokens, "--min-new-tokens is %d, want 0 to %d", o.MinNewTokens,
		o.MaxNewTokens)
	want(slices.Contains(dtypes, o.dtype), "--dtype is %q, want %s", o.dtype, joined(dtypes))
	cache, err := humanize.ParseBytes(o.cache)
	want(err == nil && cache >= 1 && cache <= math.MaxInt64, "--cache is %q, want a size such as 512MiB", o.cache)
	o.CacheBytes = int64(cache)
	for _, stop := range o.Stop {
		want(stop != "", "--stop is empty")
	}
	want(o.out == "" || textgen.CanWrite(o.out), "--out is %s, want a name that ends with %s", o.out,
		strings.Join(textgen.Extensions, " or "))
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return errors.New(problems[0])
	}
	return fmt.Errorf("%d problems:\n  %s", len(problems), strings.Join(problems, "\n  "))
}

func (a *app) runGenerate(cmd *cobra.Command, o generateOptions) error {
	dir, err := assembly.GeneratorDir(o.model)
	if err != nil {
		return err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return usage(errors.Join(err, lm.Check(dir)))
	}
	if o.out != "" {
		if err := checkOut(o.out); err != nil {
			return err
		}
	}
	prompts, err := o.readPrompts(cmd.Context(), cmd.InOrStdin(), tok, dir)
	if err != nil {
		return err
	}
	bar := a.progress()
	bar.begin("load the model")
	model, err := textgen.LoadModel(dir, o.adapter, assembly.ComputeType(o.dtype))
	if err != nil {
		return err
	}
	defer model.Free()
	if err := model.CheckVocabulary(tok.VocabSize()); err != nil {
		return usage(fmt.Errorf("%s: %w", dir, err))
	}
	bar.endIfLong()
	bar.begin("samples")
	o.Progress = bar.update
	drawn, err := textgen.Draw(cmd.Context(), model, tok, prompts, o.Options)
	if err != nil {
		return err
	}
	bar.end()
	r := generateResult{Prompts: len(prompts), Each: o.Samples, Tokens: drawn.Tokens, Seconds: drawn.Seconds,
		Rate: float64(drawn.Tokens) / drawn.Seconds, Out: o.out}
	switch {
	case o.out != "":
		if err := textgen.Write(o.out, drawn.Samples); err != nil {
			return err
		}
		return a.emit(r, func(w io.Writer) {
			fmt.Fprintf(w, "%s: %d samples of %d prompts, %d tokens, %.0f tokens/s\n", o.out, len(drawn.Samples),
				r.Prompts, r.Tokens, r.Rate)
		})
	case a.json:
		r.Samples = drawn.Samples
		return a.emit(r, nil)
	}
	return textgen.WriteLines(a.out, drawn.Samples)
}

// interruptible reads r until ctx ends. A read from a terminal that is under way then continues for nobody.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}

// readPrompts reads the file of prompts, or standard input.
func (o *generateOptions) readPrompts(ctx context.Context, stdin io.Reader, tok *tokenizer.Tokenizer, dir string) ([]textgen.Prompt, error) {
	if o.prompt != "" {
		line, err := json.Marshal(map[string]string{"prompt": o.prompt})
		if err != nil {
			return nil, err
		}
		return textgen.ReadPrompts(bytes.NewReader(line), "--prompt", tok, dir)
	}
	if o.prompts == "-" {
		return textgen.ReadPrompts(interruptible(ctx, stdin), o.prompts, tok, dir)
	}
	f, err := fault.Open(o.prompts)
	if err != nil {
		return nil, usage(fmt.Errorf("reading prompts: %w", err))
	}
	defer f.Close()
	return textgen.ReadPrompts(f, o.prompts, tok, dir)
}
