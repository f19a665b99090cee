// Package federated does the rounds of a run whose clients are elsewhere (fed.clients above 0): it announces the
// question to both aggregators, waits for their noised shares and adds these up ([Gather]).
package federated

import (
	"crypto/rand"
	"path/filepath"

	"popri/configs"
	"popri/fedsim/aggregate"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/model/embedding"
	"popri/scoring"
)

// question is what a round asks, as files for the machines that have the clients.
type question struct {
	path    string // of the question
	encoder string // the encoder's file, folder or name
}

// ask writes the question of a round and the encoder, and says where they are.
func ask(r release.Request, dir string, c configs.Config, clients int, encoder embedding.Encoder) (question,
	error) {
	described, err := scoring.Describe(r.Query)
	if err != nil {
		return question{}, err
	}
	asked := question{filepath.Join(r.Dir, rundir.Question), c.Scoring.Encoder}
	sentence := embedding.Sentence(encoder)
	q := aggregate.Question{Question: described, Round: r.Round, Clients: clients, Encoder: embedding.Key(sentence),
		Since: c.Data.Since}
	if form, ok := encoder.(*embedding.Form); ok {
		q.Form = form.Weight
	}
	if earlier, _, err := aggregate.ReadQuestion(asked.path); err == nil {
		q.Nonce = earlier.Nonce // the run was started again: anyone who has the question continues with it
	} else {
		q.Nonce = rand.Text()
	}
	switch sentence.(type) {
	case *embedding.Latent, *embedding.Hashing:
		asked.encoder = filepath.Join(dir, rundir.Encoder)
		if saved, err := embedding.LoadSaved(asked.encoder); err == nil && embedding.Key(saved) == q.Encoder {
			break // of an earlier round
		}
		if err := embedding.Save(asked.encoder, sentence); err != nil {
			return question{}, err
		}
	}
	return asked, q.Write(asked.path)
}
