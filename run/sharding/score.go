package sharding

import (
	"context"
	"fmt"

	"popri/fedsim/client"
	"popri/run/assembly"
)

// ScoreOptions say which clients answer which question, with which encoder.
type ScoreOptions struct {
	client.Options        // with the encoder's path, which may be a name; [Score] opens encoder and clients
	DType          string // in which an encoder with a folder computes; "" is auto
	Private        string // file of clients, or "godoc"
}

// Score is [client.Answer] with an encoder on libtorch.
func Score(ctx context.Context, o ScoreOptions) (*client.Answered, error) {
	encoder, err := assembly.OpenEncoder(o.Path, o.DType)
	if err != nil {
		return nil, fmt.Errorf("the encoder: %w", err)
	}
	defer assembly.FreeEncoder(encoder)
	o.Encoder = encoder
	o.Clients = assembly.PrivateStream(o.Private)
	return client.Answer(ctx, o.Options)
}
