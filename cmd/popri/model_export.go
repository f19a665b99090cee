package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/internal/modelcache"
	"popri/model/convert"
	"popri/model/lm"
)

func (a *app) modelExport() *cobra.Command {
	var o convert.ExportOptions
	cmd := &cobra.Command{
		Use:   "export DIR --gguf TYPE --out FILE.gguf",
		Short: "Turn a model folder into a GGUF file for llama.cpp",
		Long: `Writes one file that llama.cpp and its relatives open, of a Hugging Face folder or a model's name: weights, tokenizer, the
tokens that begin and end texts, chat template, and the name, licence and base model that README.md states. The families are
the same as for popri model import. The file appears when it is complete; an export that was interrupted leaves none.

--gguf is the type of the projections. f16, bf16 and f32 round as their names say. q8_0 and q4_0 have one scale for 32 values of 8 and 4
bits, rounded as llama-quantize rounds them. Vectors, and GPT-2's positions, stay float32. With q4_0, the output projection is q8_0, also
where it is the token embedding.

What llama.cpp would compute otherwise is refused with the file and the key; --accept-key NAME ignores a key. Where llama.cpp knows no window
of attention, the context is cut to it. Adapters are not exported: PEFT merges them into a folder.`,
		Example: "  popri model export models/mine --gguf q8_0 --out mine-q8_0.gguf\n" +
			"  popri model export smollm2 --gguf f16 --out smollm2-f16.gguf --json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Accept = a.accept
			return a.runModelExport(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().StringVar(&o.Out, "out", "", "file to make")
	cmd.Flags().StringVar(&o.Type, "gguf", "", "type of the projections: "+joined(convert.GGUFTypes()))
	return cmd
}

// runModelExport writes a GGUF file of a folder.
func (a *app) runModelExport(ctx context.Context, path string, o convert.ExportOptions) error {
	if o.Out == "" || o.Type == "" {
		return usage(errors.New("--out names the file to make, and --gguf its type: " + joined(convert.GGUFTypes())))
	}
	dir, err := modelcache.Dir(path, "generator")
	if err != nil {
		return err
	}
	m, err := lm.OpenStored(dir)
	if err != nil {
		return usage(err)
	}
	defer m.Close()
	p := a.progress()
	p.begin("tensors")
	o.Progress = p.update
	s, err := convert.Export(ctx, &convert.Folder{Dir: dir, Config: m.Config, Stated: m.Stated, Tensors: m.Tensors}, o)
	if err != nil {
		return err
	}
	p.end()
	return a.emit(s, func(w io.Writer) {
		printModel(w, &s.Summary)
		fmt.Fprintf(w, "file\t%s, %s\n", s.Out, humanize.Bytes(uint64(s.Bytes)))
	})
}
