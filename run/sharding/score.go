package sharding

import (
	"context"

	"popri/fedsim/client"
	"popri/model/embedding"
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
	var encoder embedding.Encoder
	defer func() { assembly.FreeEncoder(encoder) }()
	o.Open = func(path string) (_ embedding.Encoder, err error) {
		encoder, err = assembly.OpenEncoder(path, o.DType)
		return encoder, err
	}
	o.Clients = assembly.PrivateStream(o.Private)
	return client.Answer(ctx, o.Options)
}
