// Package quality measures, on the embedded default, what the parts of a method are worth: how well an encoder tells
// the clients' domain from other text, how many preference pairs survive a release's noise, and what pooled releases
// add. The embedded clients are no secret, so the figures may compare with what there is without noise; other clients
// are refused.
package quality

import (
	"popri/configs"
	"popri/model/embedding"
	"popri/run/assembly"
)

// dataAndEncoder reads the configuration's data and opens or fits its encoder, which the caller frees.
func dataAndEncoder(c configs.Config) (*assembly.Corpus, embedding.Encoder, error) {
	data, err := assembly.LoadData(c)
	if err != nil {
		return nil, nil, err
	}
	encoder, err := assembly.NewEncoder(c, data.Public)
	return data, encoder, err
}
