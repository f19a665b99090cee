package assembly

import (
	"fmt"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/internal/fault"
	"popri/internal/quote"
)

// PublicIsFile reports whether data.public names files, which can have labels.
func PublicIsFile(c configs.Config) bool {
	return !slices.Contains([]string{embedded, withoutDomain}, c.Data.Public)
}

// readLabelled reads files of public text with labels, of which there must be two or more.
func readLabelled(files []string) (datasets.Public, error) {
	const why = "generate.by_label and downstream.task=classification need public texts with labels"
	if slices.Contains([]string{embedded, withoutDomain}, files[0]) {
		return datasets.Public{}, fault.Userf("data.public is %s, whose texts have no labels; %s", files[0], why)
	}
	public, err := join(files, datasets.ReadLabelled)
	if err != nil {
		return public, fmt.Errorf("%w (%s)", err, why)
	}
	if classes := datasets.Classes(datasets.Labels(public.Generator)...); len(classes) < 2 {
		return public, fault.Userf("data.public: %s: all %d texts have the label %s; %s, two different ones or more",
			public.Name, len(public.Generator), quote.Text(classes[0]), why)
	}
	return public, nil
}

// CheckLabels returns the user's mistake if small models are to learn labels and texts of the clients have none: of
// validation and test clients, and of train clients if a model may be trained on them.
func CheckLabels(c configs.Config, p *clients.Population) error {
	if c.Downstream.Task != configs.Classification {
		return nil
	}
	const why = "downstream.task=classification needs the column label"
	splits := []clients.Split{clients.Validation, clients.Test}
	if c.Eval.ReferencePrivate {
		splits = append(splits, clients.Train)
	}
	for _, split := range splits {
		list := p.Split(split)
		labels := clients.Labels(list)
		if !slices.Contains(labels, "") {
			continue
		}
		where := ""
		if first, n, err := clients.Unlabelled(c.Data.Private, split); err == nil && first >= 0 {
			where = fmt.Sprintf("row %d and %d more of ", first, n-1)
			if n == 1 {
				where = fmt.Sprintf("row %d of ", first)
			}
		}
		return fault.Userf("data.private: %s: %sthe %s clients' texts have no label; %s", c.Data.Private, where, split,
			why)
	}
	return nil
}
