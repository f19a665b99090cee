package auditing

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"popri/configs"
	"popri/fedsim/audit"
	"popri/internal/atomicfile"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/policy"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/run/assembly"
)

// RoundVectors opens the encoder of the run in dir and returns a function that gives the samples of each of its rounds
// as vectors, for [audit.Options]. It reads the configuration, the public texts and the samples, and no client's text.
// close frees the encoder. An error says why the encoder cannot be opened. Audits of several runs share common, so that
// an encoder is fitted to the same public text once; nil shares nothing.
func RoundVectors(dir string, common *assembly.Common) (rounds func(round int) (audit.Round, error), close func(),
	err error) {
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)})
	if err != nil {
		return nil, nil, err
	}
	encoder, err := runEncoder(*c, common)
	if err != nil {
		return nil, nil, err
	}
	rounds = func(round int) (audit.Round, error) {
		path := filepath.Join(rundir.Round(dir, round), rundir.Samples)
		if !rundir.Has(rundir.Round(dir, round), rundir.Samples) {
			return audit.Round{}, errors.New("the clients were not asked about samples")
		}
		key, unread := atomicfile.SHA256(path)
		samples, err := rows.Read[sampling.Row](path)
		if err = cmp.Or(unread, err); err != nil {
			return audit.Round{}, err
		}
		vectors, err := encoder.Encode(policy.Candidates{Rows: samples}.Texts())
		return audit.Round{Samples: vectors, Key: key + " " + embedding.Key(encoder)}, err
	}
	return rounds, func() { assembly.FreeEncoder(encoder) }, nil
}

// runEncoder makes a run's encoder again, from its configuration and the public texts alone.
func runEncoder(c configs.Config, common *assembly.Common) (embedding.Encoder, error) {
	if err := assembly.SetDevice(c); err != nil {
		return nil, err
	}
	public, err := assembly.LoadPublic(c)
	if err != nil {
		return nil, err
	}
	if want := c.Provenance["public_sha256"]; want != "" && want != public.Hash() {
		return nil, fmt.Errorf("data.public: %s is not what it was when the run was made", public.Name)
	}
	return common.Encoder(c, public)
}
