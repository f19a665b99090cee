package sharding

import (
	"context"
	"fmt"

	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/shard"
	"popri/internal/fault"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/scoring/query"
)

// ScoreOptions say which clients answer which question.
type ScoreOptions struct {
	Question string // its file
	Encoder  string // file, folder or name
	DType    string // in which an encoder with a folder computes; "" is auto
	Private  string // file of clients, or "godoc"
	Place    shard.Place
	To       string // file of the merger's public key
	Out      string // file of the partial sum
}

// Scored is the outcome of [Score].
type Scored struct {
	Round   int    `json:"round"`
	Shard   string `json:"shard"`
	Clients int    `json:"clients"`
	Query   string `json:"query"`
	Out     string `json:"out"`
}

// Score adds up the vectors of a shard's train clients and writes the sum, encrypted to the merger. It reads the clients'
// file in batches, so that its memory does not grow with their number.
func Score(ctx context.Context, o ScoreOptions) (*Scored, error) {
	if err := o.Place.Validate(); err != nil {
		return nil, err
	}
	to, err := shard.ReadPublicKey(o.To)
	if err != nil {
		return nil, err
	}
	q, asked, err := shard.ReadQuestion(o.Question)
	if err != nil {
		return nil, err
	}
	encoder, err := assembly.OpenEncoder(o.Encoder, o.DType)
	if err != nil {
		return nil, fmt.Errorf("the encoder: %w", err)
	}
	defer assembly.FreeEncoder(encoder)
	if key := embedding.Key(encoder); key != q.Encoder {
		return nil, fault.Userf("the encoder %s has the key %s, the question %s is for %s", o.Encoder, key, o.Question, q.Encoder)
	}
	var members shard.Members
	// A shard without clients has a sum too, of zeros.
	sum, err := fedsim.Partial(ctx, asked, encoder, nil, query.Partial{})
	if err != nil {
		return nil, err
	}
	err = assembly.StreamPrivate(o.Private, q.Since, func(batch []clients.Client) error {
		var own []clients.Client
		for _, c := range batch {
			if c.Split == clients.Train && (o.Place.Assignment == shard.ByFile || shard.Of(c.ID, o.Place.Of) == o.Place.Shard) {
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
	return &Scored{Round: q.Round, Shard: o.Place.String(), Clients: members.Count, Query: q.Name, Out: o.Out}, nil
}
