// Package domain measures how far public text is from the clients' domain: by the Fréchet distance of embeddings, and
// by how well a linear classifier distinguishes them.
package domain

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/metrics"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/embedding"
)

// Distance says how far public text is from the clients' domain. It is measured on validation clients, who are not
// protected, and on nothing of the train clients.
type Distance struct {
	Encoder         string `json:"encoder"`
	PublicTexts     int    `json:"public_texts"` // drawn of all public text
	ValidationTexts int    `json:"validation_texts"`
	// Frechet is the Fréchet distance between public texts and validation clients' texts; FrechetTest, for scale,
	// between test and validation clients' texts.
	Frechet     float64 `json:"frechet"`
	FrechetTest float64 `json:"frechet_test"`
	// Wasserstein and WassersteinTest are the Wasserstein distances of the same texts, of which at most 500 of each
	// count.
	Wasserstein     float64 `json:"wasserstein,omitempty"`
	WassersteinTest float64 `json:"wasserstein_test,omitempty"`
	// DomainAUC is the AUC of a linear classifier of validation clients' texts and public ones, see metrics.DomainAUC:
	// 0.5 where it cannot separate them, 1 where it always can. It counts differences of length and format too.
	DomainAUC float64 `json:"domain_auc"`
}

// String says it in a sentence.
func (d *Distance) String() string {
	return fmt.Sprintf("Distance of public text from the clients: the Fréchet distance of %d public texts to the "+
		"validation clients' texts is %.3f, and to the test clients' texts %.3f (encoder %s). A linear classifier of "+
		"the vectors tells public text from validation clients' with AUC %.3f (0.5: not at all; 1: always).",
		d.PublicTexts, d.Frechet, d.FrechetTest, d.Encoder, d.DomainAUC)
}

// distanceTexts is how many public texts are measured: enough for the figures' second digit, and an encoder such as
// BERT takes seconds for them.
const distanceTexts = 5000

// Measure measures the distance of a pool of public texts, of which it draws some by the seed. It is nil where there
// are too few texts. tell, if not nil, is told how many of the texts are embedded.
func Measure(ctx context.Context, pool []datasets.Text, population *clients.Population, encoder embedding.Encoder, seed uint64,
	tell func(done, total int)) (*Distance, error) {
	order := rng.New(seed, "experiment", "distance").Perm(len(pool))
	drawn := numeric.Pick(pool, order[:min(distanceTexts, len(pool))])
	held := population.Split(clients.Validation)
	texts := [][]string{datasets.Strings(drawn), clients.Texts(held), clients.Texts(population.Split(clients.Test))}
	total, before := len(texts[0])+len(texts[1])+len(texts[2]), 0
	var vectors [3]embedding.Matrix
	for i, list := range texts {
		var part func(done, total int)
		if tell != nil {
			part = func(done, _ int) { tell(before+done, total) }
		}
		var err error
		if vectors[i], err = embedding.InParts(ctx, encoder, list, part); err != nil {
			return nil, err
		}
		before += len(list)
	}
	public, validation, test := vectors[0], vectors[1], vectors[2]
	if public.Rows < 4 || validation.Rows < 4 || test.Rows < 2 || len(held) < 2 {
		return nil, nil
	}
	d := &Distance{Encoder: encoder.Name(), PublicTexts: public.Rows, ValidationTexts: validation.Rows}
	reference, err := metrics.NewGaussian(validation.Data, validation.Dim)
	if err != nil {
		return nil, err
	}
	if d.Frechet, d.Wasserstein, err = distances(public, reference); err != nil {
		return nil, err
	}
	if d.FrechetTest, d.WassersteinTest, err = distances(test, reference); err != nil {
		return nil, err
	}
	d.DomainAUC, err = metrics.DomainAUC(metrics.Halves{Points: validation.Data, Second: halves(held)},
		metrics.Halves{Points: public.Data, Second: publicHalves(drawn)}, public.Dim)
	if errors.Is(err, metrics.ErrTooFew) {
		return nil, nil
	}
	return d, err
}

func distances(m embedding.Matrix, reference *metrics.Gaussian) (frechet, wasserstein float64, err error) {
	g, err := metrics.NewGaussian(m.Data, m.Dim)
	if err != nil {
		return 0, 0, err
	}
	if frechet, err = g.Distance(reference); err != nil {
		return 0, 0, err
	}
	wasserstein, err = g.Wasserstein(reference)
	return frechet, wasserstein, err
}

// halves puts every other client's texts into the second half, so that no client is in both.
func halves(held []clients.Client) []bool {
	var second []bool
	for i, c := range held {
		for range c.Texts {
			second = append(second, i%2 == 1)
		}
	}
	return second
}

// publicHalves puts about half of the sources into the second half, by a hash of their name, or every other text where
// that leaves a half with less than a quarter of the texts.
func publicHalves(texts []datasets.Text) []bool {
	second, n := make([]bool, len(texts)), 0
	for i, t := range texts {
		h := fnv.New32a()
		h.Write([]byte(t.Source))
		if second[i] = h.Sum32()>>16&1 == 1; second[i] {
			n++
		}
	}
	if 4*min(n, len(texts)-n) < len(texts) {
		for i := range second {
			second[i] = i%2 == 1
		}
	}
	return second
}
