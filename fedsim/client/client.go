// Package client is what a machine near the data does, in pure Go: it answers a run's question (fed.clients above 0)
// for many clients, with their vectors' sum, encrypted to the merger ([Answer]), or for one client of two aggregators,
// with a share of the vector to each ([Responder]).
package client

import (
	"context"
	"fmt"

	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/sealing"
	"popri/fedsim/shard"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Options say which clients answer which question.
type Options struct {
	Question string // its file
	Path     string // of the encoder
	Open     func(path string) (embedding.Encoder, error)
	// OtherArithmetic accepts an encoder whose weights are those that the question names, but which computes in another
	// program or number type. Its vectors differ in the last digits, so the sum does, too.
	OtherArithmetic bool
	// Clients gives the clients, without texts from before since, in batches.
	Clients func(since string, use func(batch []clients.Client) error) error
	Place   shard.Place
	To      string // file of the merger's public key
	Out     string // file of the partial sum
}

// Answered is the outcome of [Answer].
type Answered struct {
	Round   int    `json:"round"`
	Shard   string `json:"shard"`
	Clients int    `json:"clients"`
	Query   string `json:"query"`
	Out     string `json:"out"`
}

// answering is the encoder that answers the question, made of an encoder of meanings; one that is not the question's is
// refused.
func answering(encoder embedding.Encoder, path string, q shard.Question, otherArithmetic bool) (embedding.Encoder,
	error) {
	key := embedding.Key(encoder)
	if key != q.Encoder && !(otherArithmetic && embedding.SameWeights(key, q.Encoder)) {
		return nil, fault.Userf("the encoder %s has the key %s, the question is for %s", path, key, q.Encoder)
	}
	return q.With(encoder), nil
}

// Answer adds up the vectors of a shard's train clients and writes the sum, encrypted to the merger. It reads the
// clients in batches, so that its memory does not grow with their number.
func Answer(ctx context.Context, o Options) (*Answered, error) {
	if err := o.Place.Validate(); err != nil {
		return nil, err
	}
	if err := atomicfile.Check(o.Out); err != nil {
		return nil, fault.User(err)
	}
	to, err := sealing.ReadPublicKey(o.To)
	if err != nil {
		return nil, err
	}
	q, asked, err := shard.ReadQuestion(o.Question)
	if err != nil {
		return nil, err
	}
	encoder, err := o.Open(o.Path)
	if err != nil {
		return nil, fmt.Errorf("the encoder: %w", err)
	}
	if encoder, err = answering(encoder, o.Path, q, o.OtherArithmetic); err != nil {
		return nil, err
	}
	var members shard.Members
	// A shard without clients has a sum too, of zeros.
	sum, err := fedsim.Partial(ctx, asked, encoder, nil, query.Partial{})
	if err != nil {
		return nil, err
	}
	err = o.Clients(q.Since, func(batch []clients.Client) error {
		var own []clients.Client
		for _, c := range batch {
			if c.Split == clients.Train &&
				(o.Place.Assignment == shard.ByFile || shard.Of(c.ID, o.Place.Of) == o.Place.Shard) {
				own = append(own, c)
				members.Add(c.ID)
			}
		}
		if len(own) == 0 {
			return ctx.Err()
		}
		sum, err = fedsim.Partial(ctx, asked, encoder, own, sum)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := shard.Seal(o.Out, to, q, o.Place, members, sum); err != nil {
		return nil, err
	}
	return &Answered{Round: q.Round, Shard: o.Place.String(), Clients: members.Count, Query: q.Name, Out: o.Out}, nil
}
