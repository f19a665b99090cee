package evaluator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"popri/configs"
	"popri/datasets"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/sampling"
	"popri/model/shipped"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/trainer/pretrain"
)

// Comparators are the texts that an evaluation of a run compares: the synthetic set and its parts, what the untuned model wrote,
// and public texts.
type Comparators struct {
	Dir    string
	Config configs.Config
	Public datasets.Public
	// Untuned writes the text of the untuned model, or reads it if it is there.
	Untuned func(ctx context.Context) ([]sampling.Row, error)
	// Untrained does the same for what the method's own prompts and weights give without training, which the synthetic set's
	// public texts are added to; nil if the method has none.
	Untrained func(ctx context.Context) ([]sampling.Row, error)

	model   string // the folder of a product that is a model; "" for texts
	product []sampling.Row
	mixes   []sampling.Row // the public and written texts that the synthetic set was chosen from
}

// Read reads the run's product. A run without one is the user's mistake.
func (r *Comparators) Read() (err error) {
	if r.Config.Learns() {
		if r.model = filepath.Join(r.Dir, rundir.Small); !rundir.Has(r.Dir, rundir.Small) {
			return fault.Userf("%s holds no model yet: let the run end first (--resume)", r.Dir)
		}
		return nil
	}
	r.product, err = rows.Read[sampling.Row](filepath.Join(r.Dir, rundir.Synthetic))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Userf("%s holds no synthetic set yet: let the run end first (--resume)", r.Dir)
	}
	if err != nil {
		return fmt.Errorf("the synthetic set: %w", err)
	}
	r.mixes, err = rows.Read[sampling.Row](filepath.Join(r.Dir, rundir.Mixes)) // which has both parts, whatever was chosen
	if errors.Is(err, fs.ErrNotExist) {
		r.mixes, err = r.product, nil
	}
	return err
}

// Keys are the keys of the table's rows between ε = 0 and ε = ∞.
func (r *Comparators) Keys() []string {
	d := methods.Of(r.Config)
	keys := []string{evaluation.KeyUntuned}
	if r.Untrained != nil {
		keys = append(keys, evaluation.KeyUntrained)
	}
	keys = append(keys, d.Name)
	if public, written := Parts(r.mixes); len(public) > 0 && len(written) > 0 {
		keys = append(keys, evaluation.KeyWritten, evaluation.KeySelected)
	}
	if classifies(r.Config) {
		return keys // ε = 0 learns from all public text
	}
	keys = append(keys, evaluation.KeyPublicAll)
	if len(r.Public.InDomain) > 0 {
		keys = append(keys, evaluation.KeyInDomain)
	}
	return keys
}

// Sources are the training texts of rows.
func (r *Comparators) Sources(ctx context.Context, keys []string) ([]downstream.Source, error) {
	return numeric.TryMap(keys, func(key string) (downstream.Source, error) { return r.source(ctx, key) })
}

// productName is what tables call a product. It says how much of it is public text, where the method writes text, too.
func productName(d method.Description, epsilon float64, product []sampling.Row) string {
	if public, _ := Parts(product); d.Mixes && len(public) > 0 {
		return fmt.Sprintf("%s's synthetic set, %.0f %% public text (ε = %g)", d.Title,
			100*float64(len(public))/float64(len(product)), epsilon)
	}
	return fmt.Sprintf("%s's text (ε = %g)", d.Title, epsilon)
}

func (r *Comparators) source(ctx context.Context, key string) (downstream.Source, error) {
	d := methods.Of(r.Config)
	public, own := Parts(r.mixes)
	written := func(name string, texts []sampling.Row) downstream.Source {
		return Source(r.Config, key, name, texts)
	}
	switch key {
	case evaluation.KeyUntuned:
		untuned, err := r.Untuned(ctx)
		return written("untuned model's text", untuned), err
	case evaluation.KeyUntrained:
		untrained, err := r.Untrained(ctx)
		if public, own := Parts(r.product); len(own) > 0 { // with the same public texts as the synthetic set
			untrained = append(public, untrained...)
		}
		return written("the same without training", untrained), err
	case d.Name:
		if r.model != "" {
			return downstream.Source{Key: key,
				Name: fmt.Sprintf("%s's model (ε = %g)", d.Title, r.Config.Privacy.Epsilon), Model: r.model}, nil
		}
		return written(productName(d, r.Config.Privacy.Epsilon, r.product), r.product), nil
	case evaluation.KeyWritten:
		return written("what the tuned model wrote", own), nil
	case evaluation.KeySelected:
		return written("the weighted public text alone", public), nil
	case evaluation.KeyPublicAll:
		name := "all public text"
		dir, err := assembly.ModelDir(r.Config.Model.Path, shipped.Generator)
		if p, ok := pretrain.ReadProvenance(dir); err == nil && ok && p.CorpusHash == r.Public.Hash() {
			name += evaluation.SeenSuffix
		}
		return downstream.Source{Key: key, Name: name, Texts: datasets.Strings(r.Public.Generator)}, err
	case evaluation.KeyInDomain:
		return downstream.Source{Key: key, Name: "real public text of the clients' domain",
			Texts: datasets.Strings(r.Public.InDomain)}, nil
	}
	panic("evaluator: no text has the key " + key)
}

// Parts returns the public texts of a product and those that a model wrote.
func Parts(product []sampling.Row) (public, written []sampling.Row) {
	for _, row := range product {
		if row.Finish == sampling.Public {
			public = append(public, row)
		} else {
			written = append(written, row)
		}
	}
	return public, written
}
