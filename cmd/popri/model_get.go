package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/internal/hub"
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
The library huggingface_hub does it, in the Python that POPRI_PYTHON names (default python3), with its own variables
(HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE), its log-in and its cache. A model that it has fetched for another program is used, too.

The name can then be given for model.path, scoring.encoder and downstream.model, and to --model. For another revision than
main, give the folder that is printed in place of the name. No other command fetches a model.`,
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

// getModel is the program that fetches. It ends with 3 if the library is missing.
//
//go:embed model_get.py
var getModel string

// runModelGet fetches a model from the hub: config.json first, so that weights that popri could not use are not fetched.
func (a *app) runModelGet(ctx context.Context, name, revision string) error {
	if s, ok := modelcache.Find(name); ok {
		return usage(fmt.Errorf("%s is %s, which does not come from the hub: %s", s.Name, s.Title, s.Advice()))
	}
	if err := errors.Join(hub.CheckName(name), hub.CheckRevision(revision)); err != nil {
		return usage(err)
	}
	dir, err := a.snapshot(ctx, name, revision, hub.Config)
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(dir, hub.Config))
	if err != nil {
		return usage(fmt.Errorf("%s has no %s at %s: popri reads folders of transformers and GGUF files (popri model "+
			"import)", name, hub.Config, revision))
	}
	if err := readable(config); err != nil {
		return usage(fmt.Errorf("%s: %s: %w", name, hub.Config, err))
	}
	if dir, err = a.snapshot(ctx, name, revision, hub.Files...); err != nil {
		return err
	}
	if err := hub.Complete(dir); err != nil {
		return usage(fmt.Errorf("%s: %w", name, err))
	}
	r := struct {
		Name     string `json:"name"`
		Revision string `json:"revision"`
		Commit   string `json:"commit"`
		Folder   string `json:"folder"`
	}{name, revision, filepath.Base(dir), dir}
	return a.emit(r, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s, revision %s\nfolder\t%s\n", name, revision, dir)
	})
}

// snapshot has huggingface_hub fetch the files of a model that match one of the patterns, with its progress on standard
// error, and returns their folder.
func (a *app) snapshot(ctx context.Context, name, revision string, patterns ...string) (string, error) {
	python := cmp.Or(os.Getenv("POPRI_PYTHON"), "python3")
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", getModel, name, revision}, patterns...)...)
	if !a.quiet {
		cmd.Stderr = a.err
	}
	out, err := cmd.Output()
	line, ended := strings.TrimSpace(string(out)), (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && (!errors.As(err, &ended) || ended.ExitCode() == 3):
		return "", usage(fmt.Errorf("%s has no huggingface_hub, which fetches models: pip install huggingface_hub, or "+
			"name a Python that has it in POPRI_PYTHON, or copy the model's folder and name its path", python))
	case err != nil:
		return "", usage(fmt.Errorf("%s: %s", name, cmp.Or(line, err.Error())))
	}
	return line, nil
}

// readable refuses a model, by the content of its config.json, that popri could not use for anything.
func readable(config []byte) error {
	name, err := lm.Family(config)
	if err != nil || slices.Contains(lm.Families(), name) || slices.Contains(sentence.Kinds, name) {
		return err
	}
	return lm.Unsupported(name, fmt.Sprintf("generators: %s; small models: %s; encoders: %s", joined(lm.Generators()),
		joined(lm.Families()), joined(sentence.Kinds)))
}
