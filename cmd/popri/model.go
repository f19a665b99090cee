package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/model/convert"
)

func (a *app) model() *cobra.Command {
	return group("model", "Fetch models from Hugging Face's hub, import and export GGUF files",
		"  popri model get gpt2\n  popri model import model.gguf --out models/mine\n"+
			"  popri model export models/mine --gguf q8_0 --out mine.gguf", a.modelGet(), a.modelImport(), a.modelExport())
}

func (a *app) modelImport() *cobra.Command {
	var o convert.Options
	cmd := &cobra.Command{
		Use:   "import FILE.gguf --out DIR",
		Short: "Turn a GGUF file into a model folder",
		Long: `Reads a GGUF file with its tokenizer, and writes a Hugging Face folder: config.json, model.safetensors,
tokenizer.json and their settings. Families: LLaMA with Mistral and SmolLM, Qwen2, Qwen3, Gemma 2 and 3, SmolLM3, OLMo
2, Phi-3, Granite, GPT-2. Types: F32, F16, BF16, Q4_0 to Q8_0, IQ4_NL, K-quants.
The folder appears when it is complete; an import that was interrupted leaves none.

A metadata key or a tensor that is not known is refused by name; --accept-key NAME ignores a key. --dtype auto changes no
value: tensors of float16 and bfloat16 keep their type, and all others, quantized ones too, are written as float32.`,
		Example: "  popri model import SmolLM2-135M-Instruct.Q4_1.gguf --out models/smollm2\n" +
			"  popri model import model.gguf --out models/mine --dtype bfloat16 --json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFolder(o.Out); err != nil {
				return err
			}
			p := a.progress()
			p.begin("tensors")
			o.Accept, o.Progress = a.accept, p.update
			s, err := convert.Import(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			p.end()
			return a.emit(s, func(w io.Writer) {
				printModel(w, s)
				fmt.Fprintf(w, "folder\t%s\n", s.Out)
			})
		},
	}
	cmd.Flags().StringVar(&o.Out, "out", "", "folder to make")
	cmd.Flags().StringVar(&o.DType, "dtype", convert.Auto, "type of the weights: "+joined(convert.DTypes))
	return cmd
}

func printModel(w io.Writer, s *convert.Summary) {
	tied := "an output projection of its own"
	if s.Tied {
		tied = "the token embedding as output projection"
	}
	fmt.Fprintf(w, "model\t%s\n", s.Name)
	fmt.Fprintf(w, "architecture\t%s, %s\n", s.Architecture, tied)
	fmt.Fprintf(w, "parameters\t%s, written as %s\n", humanize.Comma(s.Parameters), s.DType)
	for _, name := range slices.Sorted(maps.Keys(s.Types)) {
		fmt.Fprintf(w, "\t%d tensors of %s\n", s.Types[name], name)
	}
	fmt.Fprintf(w, "vocabulary\t%s tokens\n", humanize.Comma(int64(s.Vocabulary)))
	fmt.Fprintf(w, "context\t%s tokens\n", humanize.Comma(int64(s.Context)))
}
