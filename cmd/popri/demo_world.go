package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/configs/worlds"
	"popri/internal/hub"
	"popri/internal/modelcache"
	"popri/run/assembly"
	"popri/run/evaluator"
	"popri/trainer/pretrain"
)

// worldFlags choose clients, public text, generator and encoder. The zero value chooses nothing.
type worldFlags struct {
	name, folder, private string
	public                []string
	model, encoder, small string
	cmd                   *cobra.Command
}

// worldNames are the flags' names.
var worldNames = []string{"world", "data", "private", "public", "model", "encoder", "small"}

func (f *worldFlags) add(cmd *cobra.Command) {
	f.cmd = cmd
	cmd.Flags().StringVar(&f.name, "world", worlds.Default, "clients and public text: "+joined(worlds.Names()))
	cmd.Flags().StringVar(&f.folder, "data", "", "folder of the files that a world reads (default: $"+
		worlds.FolderVariable+", or "+strings.Join(worlds.Folders, " or ")+", whichever is there)")
	cmd.Flags().StringVar(&f.private, "private", "", "Parquet file of clients, instead of a world; needs --public")
	cmd.Flags().StringArrayVar(&f.public, "public", nil,
		"file of public text, instead of the world's: Parquet, JSON lines or plain lines; may be repeated")
}

// smallFlag adds the flag of the small model.
func smallFlag(cmd *cobra.Command, small *string) {
	cmd.Flags().StringVar(small, "small", "", "small model that is trained on the synthetic set, with the recipe for its "+
		"size (default: the configuration's): embedded, trained, smollm2, a model folder, or a name on the hub")
}

// addModels adds the flags of generator, encoder and small model.
func (f *worldFlags) addModels(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.model, "model", embeddedModel, "generator: "+joined(demoModels())+
		", a model folder, or a name on the hub that popri model get has fetched; "+modelcache.SmolLM2+" is the small model, too, unless --small names one")
	cmd.Flags().StringVar(&f.encoder, "encoder", "", "encoder in which clients compare texts (default: the preset's): "+
		"latent, hashing, minilm, or a folder of sentence-transformers (BERT, RoBERTa, XLM-RoBERTa, MPNet or T5)")
	smallFlag(cmd, &f.small)
}

// smallSettings are the settings that --small stands for; others come after them. A classifier, and anyone who asks for all
// weights, gets the learning rate of all weights.
func smallSettings(small string, others ...string) ([]string, error) {
	if small == "" {
		return nil, nil
	}
	whole := slices.ContainsFunc(others, func(set string) bool {
		return set == "downstream.task="+configs.Classification || set == "downstream.adapter=none"
	})
	return assembly.SmallSettings(small, !whole)
}

// options are for a configuration with the flags' world, generator and encoder, and the user's preset and settings.
func (f *worldFlags) options(preset string, settings []string) (o configs.LoadOptions, w worlds.World, err error) {
	w, layer, err := f.world()
	if err != nil {
		return o, w, err
	}
	named := func(set string) bool { return strings.HasPrefix(set, "downstream.model=") }
	small := f.small
	if f.model == modelcache.SmolLM2 && preset == "" && !slices.ContainsFunc(settings, named) {
		small = cmp.Or(small, f.model) // what somebody would ship; the world's own learns words first of all
	}
	of, err := smallSettings(small, slices.Concat(layer.Set, settings)...)
	if err != nil {
		return o, w, err
	}
	if f.small == "" { // a default, as the world's own
		layer.Set, of = slices.Concat(layer.Set, of), nil
	}
	settings = append(of, settings...)
	if f.encoder != "" {
		settings = append([]string{"scoring.encoder=" + f.encoder}, settings...)
	}
	if f.model != "" && f.model != embeddedModel {
		of, err := demoPreset(f.model)
		if err != nil {
			return o, w, err
		}
		preset = cmp.Or(preset, of)
		layer = withModel(layer, f.model)
	}
	return configs.LoadOptions{Preset: preset, World: layer, Set: settings, Env: true}, w, nil
}

// world is what the flags choose, as a layer of the configuration.
func (f *worldFlags) world() (w worlds.World, layer configs.World, err error) {
	switch {
	case f.name == "":
		return w, layer, nil
	case f.private != "" && f.name != worlds.Default:
		return w, layer, usage(errors.New("--private stands for a world; do not combine it with --world"))
	case f.private != "" && len(f.public) == 0:
		return w, layer, usage(errors.New("--private needs --public: a file of public text"))
	case f.private != "":
		files, err := hub.Data(f.private)
		if err != nil || len(files) > 1 {
			return w, layer, usage(cmp.Or(err, fmt.Errorf("--private: popri init %s makes one file of it", f.private)))
		}
		f.private = files[0]
		w = worlds.Own(f.private, f.public...)
	default:
		if w, err = worlds.Find(f.name); err != nil {
			return w, layer, err
		}
	}
	layer, err = w.Layer(worlds.DataFolder(f.folder, os.Getenv))
	if err == nil && f.private == "" && len(f.public) > 0 {
		layer.Set = append(layer.Set[:len(layer.Set):len(layer.Set)], "data.public="+strings.Join(f.public, ","))
		if w.Name == worlds.Default {
			layer.Set = append(layer.Set, "model.path="+configs.Trained, "downstream.model="+configs.Trained)
		}
	}
	return w, layer, err
}

// withModel is a world's layer in which a generator that was named takes the place of the world's own.
func withModel(layer configs.World, model string) configs.World {
	if model != embeddedModel {
		layer.Set = append(slices.Clone(layer.Set), "model.path="+model)
	}
	return layer
}

// worldList describes all worlds, a line each.
func worldList() string {
	var lines []string
	for _, w := range worlds.List() {
		about := w.About
		if w.Client != "" {
			about += " (" + w.Client + ")"
		}
		lines = append(lines, fmt.Sprintf("  %-20s  %s", w.Name, about))
	}
	return strings.Join(lines, "\n")
}

// prepareProgress shows the training of models on public text.
func (a *app) prepareProgress() assembly.Pretraining {
	p := a.progress()
	return assembly.Pretraining{
		Begin: func(role string, texts, tokens int, dir string) {
			a.say("training the %s on public text alone, once: %d texts, %d tokens; it is kept in %s", role, texts,
				tokens, dir)
			p.begin("train the " + role)
		},
		Step: func(s pretrain.Stats, of int) { p.update(s.Step, of) },
		Wait: func(dir string) { a.say("another process trains the model %s; waiting for it", dir) },
		End: func(role, dir string, made bool, m pretrain.Provenance) {
			if made {
				p.end()
			}
			a.say("%s: %.1f M parameters, held-out loss %.3f, accuracy %.1f %% on public text (%s)", role,
				float64(m.Parameters)/1e6, m.HeldLoss, 100*m.HeldAccuracy, map[bool]string{true: "trained now",
					false: "from the cache"}[made])
		},
	}
}

// evaluable refuses, before first models are trained for minutes, clients or a small model that no run could be evaluated
// with.
func evaluable(c configs.Config) error {
	if c.Fed.Elsewhere() {
		return nil
	}
	population, err := assembly.LoadPrivate(c)
	if err != nil {
		return err
	}
	return evaluator.Check(c, population)
}

// prepared is the configuration with the device of the command line, and with models that are trained on public text in
// the place of the word "trained".
func (a *app) prepared(cmd *cobra.Command, c configs.Config) (configs.Config, error) {
	c.Model.Device = cmp.Or(a.device, c.Model.Device)
	return assembly.Pretrain(cmd.Context(), c, a.prepareProgress())
}
