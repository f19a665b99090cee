package benchmark

import (
	"popri/datasets"
	"popri/internal/fault"
	"popri/model/embedding/torch"
	"popri/model/tensor"
)

// EmbedOptions name the encoder and the texts.
type EmbedOptions struct {
	Model string       // sentence-transformers folder
	Texts string       // file of texts, see datasets.ReadPublic
	N     int          // texts, from the first
	DType tensor.DType // of weights and products
	// Profile says where the time goes.
	Profile bool
}

// Embed times the encoding of texts to vectors, tokenizing included.
func Embed(o EmbedOptions) (*Result, error) {
	if o.N < 1 {
		return nil, fault.Userf("%d texts: want at least 1", o.N)
	}
	public, err := datasets.ReadPublic(o.Texts)
	if err != nil {
		return nil, fault.User(err)
	}
	texts := datasets.Strings(public[:min(o.N, len(public))])
	e, err := torch.Open(o.Model, o.DType)
	if err != nil {
		return nil, fault.User(err)
	}
	defer e.Free()
	return measureAgain("embed", o.DType.String(), "texts", o.Profile, func() (int, error) {
		m, err := e.Encode(texts)
		return m.Rows, err
	})
}
