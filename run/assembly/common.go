package assembly

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/metrics"
	"popri/fedsim"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Common keeps in memory what runs of one process, one after the other, have in common, so that a grid fits its encoder
// and embeds each text once: the latest encoder, validation reference and train clients' embeddings. These are private
// data and are never on disk. nil keeps nothing.
type Common struct {
	encoder   kept[embedding.Encoder]
	reference kept[*metrics.Gaussian]
	train     kept[query.Clients]
}

// kept is the latest value that was made, under a digest of all that it was made of.
type kept[T any] struct {
	of    [sha256.Size]byte
	value T
}

// get returns the value of what is digested, and makes it unless it is the latest.
func (k *kept[T]) get(of hash.Hash, make func() (T, error)) (T, error) {
	digest := [sha256.Size]byte(of.Sum(nil))
	if k.of == digest {
		return k.value, nil
	}
	value, err := make()
	if err == nil {
		k.of, k.value = digest, value
	}
	return value, err
}

// digest is a hash of text fields, whose lengths it counts.
func digest(fields ...[]string) hash.Hash {
	h := sha256.New()
	for _, list := range fields {
		fmt.Fprintf(h, "%d:\n", len(list))
		for _, s := range list {
			fmt.Fprintf(h, "%d %s\n", len(s), s)
		}
	}
	return h
}

// Encoder is [NewEncoder]; one that is fitted to public text is kept.
func (k *Common) Encoder(c configs.Config, public datasets.Public) (embedding.Encoder, error) {
	if k == nil || !slices.Contains(configs.Encoders, c.Scoring.Encoder) { // weights that Session.Close frees
		return NewEncoder(c, public)
	}
	of := digest([]string{c.Scoring.Encoder, fmt.Sprint(c.Scoring.Dim), public.Hash()})
	e, err := k.encoder.get(of, func() (embedding.Encoder, error) { return newSentence(c, public) })
	if err != nil {
		return nil, err
	}
	return joined(c, e), nil
}

// Reference is [validationReference], kept.
func (k *Common) Reference(ctx context.Context, p *clients.Population, encoder embedding.Encoder,
	tell func(done, total int)) (*metrics.Gaussian, error) {
	if k == nil {
		return validationReference(ctx, p, encoder, tell)
	}
	of := digest([]string{embedding.Key(encoder)}, clients.Texts(p.Split(clients.Validation)))
	return k.reference.get(of, func() (*metrics.Gaussian, error) { return validationReference(ctx, p, encoder, tell) })
}

// Embedded is [fedsim.Embed], kept; with classes, the texts' labels are noted ([fedsim.Label]).
func (k *Common) Embedded(ctx context.Context, train []clients.Client, encoder embedding.Encoder, texts bool,
	classes []string, tell func(done, total int)) (query.Clients, error) {
	embed := func() (query.Clients, error) {
		embedded, err := fedsim.Embed(ctx, train, encoder, texts, tell)
		if err == nil && classes != nil {
			fedsim.Label(&embedded, train, classes)
		}
		return embedded, err
	}
	if k == nil {
		return embed()
	}
	of := digest([]string{embedding.Key(encoder), fmt.Sprint(texts)}, classes, clients.Labels(train))
	for _, c := range train {
		fmt.Fprintf(of, "%x", digest(c.Texts).Sum(nil))
	}
	return k.train.get(of, embed)
}
