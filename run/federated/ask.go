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
	"popri/scoring/update"
)

// question is what a round asks, as files for the machines that have the clients.
type question struct {
	path    string // of the question
	encoder string // the encoder's file, folder or name; "" where none is needed
}

// ask writes the question of a round and the encoder, and says where they are.
func ask(r release.Request, dir string, c configs.Config, clients int, encoder embedding.Encoder) (question,
	error) {
	asked := question{path: filepath.Join(r.Dir, rundir.Question)}
	q := aggregate.Question{Round: r.Round, Clients: clients, Since: c.Data.Since, Nonce: rand.Text()}
	if earlier, _, err := aggregate.ReadQuestion(asked.path); err == nil {
		q.Nonce = earlier.Nonce // the run was started again: anyone who has the question continues with it
	}
	if training, ok := r.Query.(update.Question); ok {
		q.About = aggregate.Updates{Question: training}
		if err := q.Write(asked.path); err != nil {
			return asked, err
		}
		_, _, err := aggregate.ReadQuestion(asked.path) // what clients would refuse is not announced
		return asked, err
	}
	described, err := scoring.Describe(r.Query)
	if err != nil {
		return question{}, err
	}
	sentence := embedding.Sentence(encoder)
	about := aggregate.Embeddings{Question: described, Encoder: embedding.Key(sentence)}
	if joined, ok := encoder.(*embedding.Joined); ok {
		about.Form, about.Words = joined.Form, joined.Words
	}
	q.About, asked.encoder = about, c.Scoring.Encoder
	switch sentence.(type) {
	case *embedding.Latent, *embedding.Hashing:
		asked.encoder = filepath.Join(dir, rundir.Encoder)
		if saved, err := embedding.LoadSaved(asked.encoder); err == nil && embedding.Key(saved) == about.Encoder {
			break // of an earlier round
		}
		if err := embedding.Save(asked.encoder, sentence); err != nil {
			return question{}, err
		}
	}
	return asked, q.Write(asked.path)
}
