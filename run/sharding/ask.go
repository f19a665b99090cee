// Package sharding does the rounds of a run whose clients are elsewhere (fed.clients above 0). In shards, the run asks
// a question and waits, each shard scores its clients and encrypts their sum, and a merger makes the release of all
// sums. Behind two aggregators ([Gather]), the run announces the question, waits for both noised shares and adds them
// up.
package sharding

import (
	"crypto/rand"
	"fmt"
	"path/filepath"

	"popri/configs"
	"popri/fedsim/release"
	"popri/fedsim/shard"
	"popri/internal/rundir"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// WaitingError ends a run whose clients are elsewhere (fed.clients above 0) until their partial sums are merged.
type WaitingError struct {
	Round    int
	Clients  int    // of all shards together
	Question string // the file that clients are asked by
	Encoder  string // the encoder's file, folder or name
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("waiting for the partial sums of all shards, of %d clients: the question is %s", e.Clients,
		e.Question)
}

// Resumable returns true: the run goes on when the partial sums are merged.
func (e *WaitingError) Resumable() bool { return true }

// Ask returns a function for [fedsim.NewRemote] that writes the question of a round of the run in dir, and the encoder,
// for the machines that have the clients. It never returns a sum, but a [WaitingError].
func Ask(dir string, c configs.Config, clients int, encoder embedding.Encoder) func(release.Request) (query.Partial,
	error) {
	return func(r release.Request) (query.Partial, error) {
		waiting, err := ask(r, dir, c, clients, encoder)
		if err != nil {
			return query.Partial{}, err
		}
		return query.Partial{}, waiting
	}
}

// ask writes the question of a round and the encoder, and says where they are.
func ask(r release.Request, dir string, c configs.Config, clients int, encoder embedding.Encoder) (*WaitingError,
	error) {
	described, err := scoring.Describe(r.Query)
	if err != nil {
		return nil, err
	}
	waiting := &WaitingError{Round: r.Round, Clients: clients, Question: filepath.Join(r.Dir, rundir.Question),
		Encoder: c.Scoring.Encoder}
	sentence := embedding.Sentence(encoder)
	q := shard.Question{Question: described, Round: r.Round, Clients: clients, Encoder: embedding.Key(sentence),
		Since: c.Data.Since}
	if form, ok := encoder.(*embedding.Form); ok {
		q.Form = form.Weight
	}
	if asked, _, err := shard.ReadQuestion(waiting.Question); err == nil {
		q.Nonce = asked.Nonce // the run was started again: whoever has the question goes on with it
	} else {
		q.Nonce = rand.Text()
	}
	switch sentence.(type) {
	case *embedding.Latent, *embedding.Hashing:
		waiting.Encoder = filepath.Join(dir, rundir.Encoder)
		if saved, err := embedding.LoadSaved(waiting.Encoder); err == nil && embedding.Key(saved) == q.Encoder {
			break // of an earlier round
		}
		if err := embedding.Save(waiting.Encoder, sentence); err != nil {
			return nil, err
		}
	}
	return waiting, q.Write(waiting.Question)
}
