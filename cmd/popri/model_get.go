package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/internal/hub"
	"popri/internal/hub/download"
	"popri/internal/modelcache"
	"popri/model/embedding/sentence"
	"popri/model/lm"
)

func (a *app) modelGet() *cobra.Command {
	var revision string
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Fetch a model from Hugging Face's hub",
		Long: `Fetches the files of a model that popri reads: config.json, the tokenizer, the settings of an encoder, and safetensors.
Their sizes and checksums are compared with those that the hub states. Finished files are not fetched again, and an
interrupted download continues where it ended.

The files are stored as the hub's own programs store them ($HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub), and serve
those, too. The name can then be given for model.path, scoring.encoder and downstream.model, and to --model. A model that such a
program has fetched is used in the same way. No other command fetches a model.

HF_ENDPOINT names another hub, and HF_TOKEN is the token of an account for private and gated models. With HF_HUB_OFFLINE=1 the verb
only looks whether the model is there. For another revision than main, give the folder that is printed in place of the name.`,
		Example: "  popri model get gpt2\n  popri model get HuggingFaceTB/SmolLM2-135M-Instruct --revision main\n" +
			"  popri model get sentence-transformers/all-MiniLM-L6-v2 --json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runModelGet(cmd.Context(), args[0], revision)
		},
	}
	cmd.Flags().StringVar(&revision, "revision", hub.DefaultRevision, "branch, tag or commit")
	return cmd
}

// runModelGet fetches a model from the hub.
func (a *app) runModelGet(ctx context.Context, name, revision string) error {
	if s, ok := modelcache.Find(name); ok {
		return usage(fmt.Errorf("model get: %s is %s, which does not come from the hub: %s fetches it", s.Name,
			s.Title, s.Fetch))
	}
	o, err := download.FromEnvironment()
	if err != nil {
		return err
	}
	p := a.progress()
	o.Name, o.Revision, o.Check, o.Say = name, revision, readable, a.say
	o.Progress = func(done, total int64) { p.update(int(done>>20), int(total>>20)) }
	p.begin("MB")
	r, err := download.Get(ctx, o)
	if err != nil {
		return fmt.Errorf("model get: %w", err)
	}
	p.end()
	return a.emit(r, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s, revision %s\n", r.Name, r.Revision)
		if !o.Offline {
			fmt.Fprintf(w, "size\t%s, of which %s were fetched\n", humanize.Bytes(uint64(r.Bytes)),
				humanize.Bytes(uint64(r.Fetched)))
		}
		fmt.Fprintf(w, "folder\t%s\n", r.Folder)
	})
}

// readable refuses a model, by the content of its config.json, that popri could not use for anything.
func readable(config []byte) error {
	name, err := lm.Family(config)
	if err != nil || slices.Contains(lm.Families(), name) || slices.Contains(sentence.Kinds, name) {
		return err
	}
	list := func(names []string) string { return strings.Join(names, ", ") }
	return lm.Unsupported(name, fmt.Sprintf("generators: %s; small models: %s; encoders: %s", list(lm.Generators()),
		list(lm.Families()), list(sentence.Kinds)))
}
