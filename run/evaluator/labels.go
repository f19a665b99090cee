package evaluator

import (
	"fmt"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/mixture"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/trainer/pretrain"
)

// classifies reports whether the small model gives texts labels.
func classifies(c configs.Config) bool { return c.Downstream.Task == configs.Classification }

// CheckTask returns the user's mistake if the synthetic set of a run would lack the labels that its evaluation needs.
func CheckTask(c configs.Config) error {
	if classifies(c) && !c.Generate.ByLabel {
		return fault.Userf("downstream.task is \"classification\", and generate.by_label is false: the synthetic set's " +
			"texts would have no labels to learn; set generate.by_label=true")
	}
	return nil
}

// Check returns the user's mistake that would end the evaluation of a run: of the settings ([CheckTask]), of the clients, or
// of the small model. A run that is to be evaluated is checked before a client is asked.
func Check(c configs.Config, population *clients.Population) error {
	if err := CheckTask(c); err != nil {
		return err
	}
	for _, split := range []clients.Split{clients.Validation, clients.Test} {
		if len(population.Split(split)) == 0 {
			return fault.Userf("%s has no %s clients, and the evaluation needs some: validation clients choose a small "+
				"model's step, and test clients judge it", population.Name, split)
		}
	}
	if err := assembly.MayShow(population); err != nil {
		return err
	}
	name, shape := "that is trained on the public text", lm.Shape{}
	if c.Downstream.Model == configs.Trained {
		shape, _ = pretrain.Small(datasets.Public{}, pretrain.Device, tensor.Float32).Shape() // whatever the text
	} else {
		dir, err := assembly.ModelDir(c.Downstream.Model, shipped.Device)
		if err != nil {
			return err
		}
		if shape, err = lm.Inspect(dir); err != nil {
			return fault.User(err)
		}
		if err := mixture.Refuse(dir); err != nil {
			return err
		}
		name = "in " + dir
	}
	return checkContext(c, name, shape)
}

// checkContext returns the user's mistake if rows are longer than what a model of this shape attends to.
func checkContext(c configs.Config, name string, shape lm.Shape) error {
	if most := shape.Config.Context; c.Downstream.Length > most {
		return fault.Userf("downstream.length is %d, must be at most %d: the small model %s attends to no more tokens",
			c.Downstream.Length, most, name)
	}
	return nil
}

// classes are the labels of a classification: of public text, and of validation clients, who are not protected. Train
// and test clients' labels stay private: a train client's text with another label is left out of the ε = ∞ row, and a test
// client's is one that no model has right. A folder whose classifier is trained has its own labels, which must include all
// of these.
func classes(c configs.Config, population *clients.Population, public []datasets.Text) ([]string, error) {
	if !classifies(c) {
		return nil, nil
	}
	held := clients.Labels(population.Split(clients.Validation))
	all := datasets.Classes(append(datasets.Labels(public), held...)...)
	dir, err := assembly.ModelDir(c.Downstream.Model, shipped.Device)
	if err != nil {
		return nil, err
	}
	trained, err := lm.ClassifierLabels(dir)
	if err != nil {
		return nil, fault.Userf("downstream.model: %w", err)
	}
	if trained == nil {
		if len(all) < 2 {
			return nil, fault.Userf("downstream.task is \"classification\", and all public and validation texts have one " +
				"label: two are needed")
		}
		return all, nil
	}
	for _, l := range all {
		if slices.Contains(trained, l) {
			continue
		}
		which := "a label of validation clients"
		if slices.Contains(datasets.Labels(public), l) {
			which = fmt.Sprintf("%s, which data.public has", quote.Text(l))
		}
		return nil, fault.Userf("downstream.model: the classifier in %s has the labels %q and not %s", dir, trained,
			which)
	}
	return trained, nil
}

// publicSource is the text of a classification's ε = 0 point; nil for next tokens, whose point is the untrained model,
// and without public text.
func publicSource(c configs.Config, public []datasets.Text) *downstream.Source {
	if !classifies(c) || len(public) == 0 {
		return nil
	}
	return &downstream.Source{Key: downstream.Public, Name: "public text (ε = 0)", Texts: datasets.Strings(public),
		Labels: datasets.Labels(public)}
}

// Source is the training text of a result: written texts, for a classification with their labels.
func Source(c configs.Config, key, name string, written []sampling.Row) downstream.Source {
	src := downstream.Source{Key: key, Name: name}
	texts, labels := sampling.Labelled(written)
	if src.Texts = texts; classifies(c) {
		src.Labels = labels
	}
	return src
}

// labelNotes says how many test texts no model of a source can be right on. It names no label: a client's may be
// anything.
func labelNotes(population *clients.Population, all []string, sources []downstream.Source) (notes []string) {
	test := clients.Labels(population.Split(clients.Test))
	all = datasets.Classes(append(test, all...)...)
	for _, src := range sources {
		known := numeric.Set(src.Labels)
		missing := slices.DeleteFunc(slices.Clone(test), func(l string) bool { return known[l] })
		if len(missing) > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d test texts have labels that no text of %q has (%d of %d "+
				"labels): what is trained on it gives them to none.", len(missing), len(test), src.Name,
				len(numeric.Set(missing)), len(all)))
		}
	}
	return notes
}
