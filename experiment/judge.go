package experiment

import (
	"context"
	"strings"

	"popri/assembly"
	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/downstream"
	"popri/internal/parquetio"
	"popri/internal/rows"
	"popri/models"
	"popri/sampling"
)

// KeyText is the key of the text that [Judge] is given.
const KeyText = "text"

// Judge trains the small model of the configuration on any texts, and tests it on the test clients of data.private
// beside ε = 0 and ε = ∞. File holds the texts as Parquet, JSON lines or plain lines.
func Judge(ctx context.Context, c configs.Config, file string, o EvalOptions) (*Evaluation, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := assembly.SetDevice(c); err != nil {
		return nil, err
	}
	texts, err := judged(file)
	if err != nil {
		return nil, mistake("%w", err)
	}
	if _, err := assembly.ModelDir(c.Downstream.Model, models.Device); err != nil {
		return nil, err
	}
	population, err := assembly.LoadPrivate(c)
	if err != nil {
		return nil, err
	}
	for _, split := range clients.Splits {
		if len(population.Split(split)) == 0 {
			return nil, mistake("%s has no %s clients", c.Data.Private, split)
		}
	}
	return evaluate(ctx, c, population, "", []downstream.Source{{Key: KeyText, Name: file, Texts: texts}}, o)
}

// judged reads texts to judge. A file of a run's own samples may hold empty ones, which are left out as in the run's
// evaluation; elsewhere an empty text is an error.
func judged(file string) ([]string, error) {
	if strings.HasSuffix(strings.ToLower(file), ".parquet") {
		f, err := parquetio.Open(file)
		if err != nil {
			return nil, err
		}
		own := f.Has("sample_index") && f.Has("finish") && f.Has("ids")
		if err := f.Close(); err != nil {
			return nil, err
		}
		if own {
			samples, err := rows.Read[sampling.Row](file)
			return sampling.Texts(samples), err
		}
	}
	texts, err := datasets.ReadPublic(file)
	return datasets.Strings(texts), err
}
