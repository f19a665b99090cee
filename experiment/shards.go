package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"popri/accountant/ledger"
	"popri/assembly"
	"popri/configs"
	"popri/datasets/clients"
	"popri/embedding"
	"popri/fedsim"
	"popri/internal/fault"
	"popri/methods"
	"popri/query"
	"popri/release"
	"popri/rundir"
	"popri/scoring"
	"popri/shard"
)

// WaitingError ends a run whose clients are elsewhere (fed.collect=shards) until their partial sums are merged.
type WaitingError struct {
	Round    int
	Clients  int    // of all shards together
	Question string // the file that clients are asked by
	Encoder  string // the encoder's file, folder or name
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("waiting for the partial sums of all shards, of %d clients: the question is %s", e.Clients, e.Question)
}

// Resumable returns true: the run goes on when the partial sums are merged.
func (e *WaitingError) Resumable() bool { return true }

// ask writes the question of a round, and the encoder, for the machines that have the clients. It never returns a sum.
func (s *Session) ask(r release.Request) (query.Partial, error) {
	described, err := scoring.Describe(r.Query)
	if err != nil {
		return query.Partial{}, err
	}
	waiting := &WaitingError{Round: r.Round, Clients: s.budget.Clients, Question: filepath.Join(r.Dir, rundir.Question),
		Encoder: s.Config.Scoring.Encoder}
	q := shard.Question{Question: described, Round: r.Round, Clients: s.budget.Clients, Encoder: embedding.Key(s.encoder),
		Since: s.Config.Data.Since}
	switch s.encoder.(type) {
	case *embedding.Latent, *embedding.Hashing:
		waiting.Encoder = filepath.Join(s.Dir, rundir.Encoder)
		if saved, err := embedding.LoadSaved(waiting.Encoder); err == nil && embedding.Key(saved) == q.Encoder {
			break // of an earlier round
		}
		if err := embedding.Save(waiting.Encoder, s.encoder); err != nil {
			return query.Partial{}, err
		}
	}
	if err := q.Write(waiting.Question); err != nil {
		return query.Partial{}, err
	}
	return query.Partial{}, waiting
}

// ShardOptions say which clients answer which question.
type ShardOptions struct {
	Question string // its file
	Encoder  string // file, folder or name
	DType    string // in which an encoder with a folder computes; "" is auto
	Private  string // file of clients, or "godoc"
	Place    shard.Place
	To       string // file of the merger's public key
	Out      string // file of the partial sum
}

// Shard is the outcome of [ScoreShard].
type Shard struct {
	Round   int    `json:"round"`
	Shard   string `json:"shard"`
	Clients int    `json:"clients"`
	Query   string `json:"query"`
	Out     string `json:"out"`
}

// ScoreShard adds up the vectors of a shard's train clients and writes the sum, encrypted to the merger. It reads the clients'
// file in batches, so that its memory does not grow with their number.
func ScoreShard(ctx context.Context, o ShardOptions) (*Shard, error) {
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
	return &Shard{Round: q.Round, Shard: o.Place.String(), Clients: members.Count, Query: q.Name, Out: o.Out}, nil
}

// MergeOptions say which partial sums make the release of which round.
type MergeOptions struct {
	Dir   string // the run's folder
	Round int
	Key   string   // file of the merger's private key
	Parts []string // files of all shards
}

// MergeShards adds up the partial sums of all shards of a run's round, adds noise, charges the run's ledger and writes the
// release, by the protocol of package fedsim. A merge that was killed is repeated: what was drawn is used again, and what was
// charged is not charged again. The release of a round that has one is returned as it is.
func MergeShards(o MergeOptions) (_ *release.Release, err error) {
	if !rundir.Exists(o.Dir) {
		return nil, fault.Userf("%s holds no run: there is no %s", o.Dir, rundir.Config)
	}
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(o.Dir, rundir.Config)})
	if err != nil {
		return nil, err
	}
	if c.Fed.Collect != configs.Shards {
		return nil, fault.Userf("%s asks its clients itself (fed.collect is %q): there is nothing to merge", o.Dir, c.Fed.Collect)
	}
	dir := rundir.Round(o.Dir, o.Round)
	path := filepath.Join(dir, rundir.Question)
	q, asked, err := shard.ReadQuestion(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("round %d of %s is not waiting for shards: %s is not there", o.Round, o.Dir, path)
	}
	if err != nil {
		return nil, err
	}
	name, bound := methods.Of(*c).Query(*c)
	if q.Round != o.Round || q.Name != name || q.Bound != bound || q.Clients != c.Fed.Clients {
		return nil, fault.Userf("%s asks %d clients for %q with norm bound %g in round %d, the run asks %d for %q with %g in round %d", path,
			q.Clients, q.Name, q.Bound, q.Round, c.Fed.Clients, name, bound, o.Round)
	}
	key, err := shard.ReadPrivateKey(o.Key)
	if err != nil {
		return nil, err
	}
	record, err := ledger.Inspect(filepath.Join(o.Dir, rundir.Ledger))
	if err != nil {
		return nil, err
	}
	l, err := assembly.OpenLedger(*c, o.Dir, record.Budget) // acquires the folder's lock
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	sigma, err := assembly.Calibrate(*c, l.Budget(), assembly.Inherited(l))
	if err != nil {
		return nil, err
	}
	sums := func(release.Request) (query.Partial, error) { return shard.Merge(key, q, o.Parts) }
	federation, err := fedsim.NewRemote(l.Budget().Clients, sums, assembly.Federation(*c, o.Dir, l, sigma))
	if err != nil {
		return nil, err
	}
	return federation.Collect(release.Request{Round: o.Round, Query: asked, Dir: dir})
}

// WaitingRound is the round of a run whose question has no release yet; 0 for none.
func WaitingRound(dir string) int {
	rounds, err := filepath.Glob(filepath.Join(dir, rundir.Rounds, "*", rundir.Question))
	if err != nil {
		return 0
	}
	for _, path := range rounds {
		var round int
		_, err := fmt.Sscanf(filepath.Base(filepath.Dir(path)), "%d", &round)
		_, released := os.Stat(filepath.Join(filepath.Dir(path), release.File))
		if err == nil && errors.Is(released, fs.ErrNotExist) {
			return round
		}
	}
	return 0
}
