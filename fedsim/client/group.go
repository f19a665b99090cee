package client

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/model/embedding"
)

// GroupOptions say for whom a machine answers that has the texts of many clients, such as a hospital's server.
type GroupOptions struct {
	ResponderOptions        // Key, Dir, Files and Texts are set for each client
	Private          string // Parquet file of clients, whose train clients answer
	Keys             string // folder of the clients' keys ([EnrolGroup])
	Record           string // folder with a record for each key
	Most             int    // texts of a client that count, from the end; 0 for all
}

// Group answers announcements of two aggregators for each client of a file, one after another: each has its own key,
// record and report, as if it had a machine of its own.
type Group struct {
	GroupOptions
	remotes   map[aggregate.Role]carrier
	encoders  map[string]embedding.Encoder
	confirmed bool // by the first client's owner, for all
}

// Tally is what became of an announcement.
type Tally struct {
	Answered int `json:"clients_answered"`
	Refused  int `json:"clients_beyond_budget"` // whose own ε is spent
	Unknown  int `json:"clients_not_enrolled"`  // or revoked
}

// uploadRate is how many reports a second an aggregator takes from one address by default.
const uploadRate = 50

// NewGroup prepares to answer.
func NewGroup(o GroupOptions) (*Group, error) {
	for _, path := range []string{o.Private, o.Keys} {
		if _, err := os.Stat(path); err != nil {
			return nil, fault.User(err)
		}
	}
	if err := os.MkdirAll(o.Record, 0o700); err != nil {
		return nil, fault.User(err)
	}
	atomicfile.RemoveAbandoned(o.Record)
	remotes, err := carriers(o.Federation, "", o.Tell)
	if err != nil {
		return nil, err
	}
	g := &Group{GroupOptions: o, remotes: remotes, encoders: map[string]embedding.Encoder{}}
	g.fetched = map[string]string{}
	open := o.Open
	g.Open = func(path string) (embedding.Encoder, error) { // once for all clients
		if e := g.encoders[path]; e != nil {
			return e, nil
		}
		e, err := open(path)
		g.encoders[path] = e
		return e, err
	}
	return g, nil
}

// Close ends the use of connections.
func (g *Group) Close() {
	for _, remote := range g.remotes {
		remote.Close()
	}
}

// Next waits for an announcement of both aggregators that the clients have not answered. One that some of them have
// answered comes first, until its deadline.
func (g *Group) Next(ctx context.Context, every time.Duration) (*aggregate.Announcement, error) {
	if a := unfinished(g.Keys); a != nil {
		return a, nil
	}
	return next(ctx, g.remotes, every, func(a *aggregate.Announcement) bool {
		_, err := os.Stat(g.done(a))
		return err != nil
	})
}

// done is the file that says that all clients have answered an announcement. It is next to their keys, because several
// groups may keep their records in one folder.
func (g *Group) done(a *aggregate.Announcement) string {
	return filepath.Join(g.Keys, a.ID().String()+".answered")
}

// Answer has every train client answer an announcement. Called again, after a crash too, it continues with the clients
// who have not. A client without a key is an error before anybody answers; one whose own budget is spent, or whom the
// aggregators do not know, is counted. What is sent when does not depend on the texts: all keys are asked about first,
// then all vectors are made, and after a random time ([Responder.Answer]) all reports are sent.
func (g *Group) Answer(ctx context.Context, a *aggregate.Announcement) (tally Tally, err error) {
	unsent := filepath.Join(g.Keys, a.ID().String()+"."+begun)
	_, err = os.Stat(unsent)
	marked := err == nil
	all, err := g.allHaveKeys()
	if err != nil {
		return tally, err
	}
	t, err := g.times(a, marked, time.Duration(all)*time.Second/uploadRate)
	if err != nil {
		return tally, err
	}
	since, err := g.since(ctx, a)
	if err != nil {
		return tally, err
	}
	out := map[string]bool{} // the folders of clients who do not answer
	each := func(use func(*Responder) error) error {
		return eachTrainClient(g.Private, since, func(c clients.Client) error {
			r, err := g.responder(c)
			if err != nil {
				return err
			}
			if !r.sent(a) && !out[r.Dir] {
				err = use(r)
			}
			return errors.Join(err, r.Close(), ctx.Err())
		})
	}
	err = each(func(r *Responder) error {
		err := r.checkEnrolled(ctx, a)
		if errors.Is(err, ErrNotEnrolled) && tally.Unknown < all-1 {
			out[r.Dir], err = true, nil
			tally.Unknown++
		}
		return err
	})
	if err != nil {
		return tally, err
	}
	err = each(func(r *Responder) error {
		r.enrolled, r.confirmed, r.agreed = true, g.confirmed, g.agreed
		_, err := r.reports(ctx, a, t.ready)
		if err == nil {
			err = r.charge(a)
		}
		switch {
		case errors.Is(err, ledger.ErrBudget):
			out[r.Dir], err = true, nil
			tally.Refused++
		case err == nil:
			g.confirmed, g.agreed = r.confirmed, r.agreed
			if !marked {
				marked, err = true, atomicfile.WriteBytes(unsent, a.Encode())
			}
		}
		return err
	})
	if err == nil {
		err = t.wait(ctx)
	}
	var final []error // of clients whom the aggregators refuse; the others send
	if err == nil {
		err = each(func(r *Responder) error {
			err := r.send(ctx, a)
			if errors.As(err, new(*service.Refused)) {
				final, err = append(final, err), nil
			}
			return err
		})
	}
	if err != nil {
		return tally, errors.Join(append(final, err)...)
	}
	tally.Answered = all - len(out) - len(final)
	if err := os.Remove(unsent); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tally, err
	}
	return tally, errors.Join(append(final, atomicfile.WriteBytes(g.done(a), nil))...)
}

// since is the date from which on texts count, by an announcement's question.
func (g *Group) since(ctx context.Context, a *aggregate.Announcement) (string, error) {
	path, err := fetch(ctx, g.remotes[aggregate.Leader], g.Record, a.Question)
	if err != nil {
		return "", fmt.Errorf("client: %w", err)
	}
	q, _, err := aggregate.ReadQuestion(path)
	if err != nil {
		return "", fmt.Errorf("client: %w", err)
	}
	return q.Since, nil
}

// responder answers for one client.
func (g *Group) responder(c clients.Client) (*Responder, error) {
	key, err := identity.ReadClientKey(keyPath(g.Keys, c.ID))
	if err != nil {
		return nil, err
	}
	texts := c.Texts
	if g.Most > 0 && len(texts) > g.Most {
		texts = texts[len(texts)-g.Most:]
	}
	o := g.ResponderOptions
	o.Key, o.Files, o.carriers, o.fetched = key, g.Record, g.remotes, g.fetched
	o.Dir = filepath.Join(g.Record, fmt.Sprintf("%x", key.Public())[:16])
	o.Texts = func(string) ([]string, error) { return texts, nil }
	return NewResponder(o)
}

// allHaveKeys counts the train clients, each of whom must have a key.
func (g *Group) allHaveKeys() (all int, err error) {
	missing := 0
	err = eachTrainClient(g.Private, "", func(c clients.Client) error {
		all++
		if _, err := os.Stat(keyPath(g.Keys, c.ID)); err != nil {
			missing++
		}
		return nil
	})
	if err == nil && missing > 0 {
		err = fault.Userf("client: %d train clients of %s have no key in %s: make their keys with --keygen, and enrol "+
			"them", missing, g.Private, g.Keys)
	}
	return all, err
}

// EnrolGroup makes a key for each train client of a file that has none in the folder, and calls line with the line that
// enrols each client, new or not.
func EnrolGroup(keys, private string, line func(string) error) error {
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return fault.User(err)
	}
	return eachTrainClient(private, "", func(c clients.Client) error {
		path := keyPath(keys, c.ID)
		key, err := identity.ReadClientKey(path)
		if errors.Is(err, fs.ErrNotExist) {
			enrols, err := identity.CreateClientKey(path)
			if err != nil {
				return err
			}
			return line(enrols)
		}
		if err != nil {
			return err
		}
		return line(base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)))
	})
}

// keyPath is the file of a client's key. Its name does not tell the client's ID.
func keyPath(dir, id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(dir, fmt.Sprintf("%x.key", sum[:16]))
}

// eachTrainClient reads the train clients of a file in batches, so that memory does not grow with their number. Texts
// from before since are left out; a client whose texts are all older is there without texts.
func eachTrainClient(private, since string, use func(clients.Client) error) error {
	return clients.Stream(private, func(batch []clients.Client) error {
		for _, c := range batch {
			if c.Split != clients.Train {
				continue
			}
			if since != "" {
				c.Texts = recent(c, since)
			}
			if err := use(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// recent are the texts of a client from since on. Whether a client reports must not depend on its texts, so a client
// with none is kept.
func recent(c clients.Client, since string) []string {
	left := (&clients.Population{Clients: []clients.Client{c}}).Since(since).Clients
	if len(left) == 0 {
		return nil
	}
	return left[0].Texts
}
