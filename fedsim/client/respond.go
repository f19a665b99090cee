package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/fedsim/noise"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/model/embedding"
)

// ResponderOptions say who a client of two aggregators is and what it agrees to.
type ResponderOptions struct {
	Federation *identity.Federation
	Key        ed25519.PrivateKey
	// Dir keeps what the client has spent and sent. It belongs to the client's key.
	Dir string
	// Files keeps the files that were announced; "" is Dir. Clients of one machine share them.
	Files string
	// Epsilon and Delta are the client's own budget, over all questions of all runs.
	Epsilon, Delta float64
	// Encoder is the folder of a sentence encoder, which answers all questions.
	Encoder string
	// AnnouncedEncoder accepts encoders that come with questions, for a client without one of its own. Else Confirm
	// must agree to each.
	AnnouncedEncoder bool
	Open             func(path string) (embedding.Encoder, error)
	// Small answers the questions about updates of the small model; nil refuses them.
	Small Trainer
	// Texts reads the client's texts, those from before since left out. An error counts as no texts.
	Texts func(since string) ([]string, error)
	// Confirm is asked before the first answer, and before another encoder is used that came with a question; an error
	// ends the work.
	Confirm func(Offer) error
	// AtOnce sends reports as soon as they are made, so that their time shows how much a client wrote. Otherwise they
	// are sent at a random time of the second half of what the round leaves, ready or not ([Responder.Answer]).
	AtOnce bool
	// Tell receives what the owner of the texts alone may know; nil informs nobody.
	Tell func(string)
	// InsecureSeeds accepts announcements of tests, whose noise comes from a seed.
	InsecureSeeds bool
	// carriers reach the aggregators; nil opens new ones, which [Responder.Close] closes.
	carriers map[aggregate.Role]carrier
	// agreed is the hash of the announced encoder that Confirm has agreed to.
	agreed []byte
	// enrolled says that both aggregators know the key.
	enrolled bool
	// fetched has the paths of files whose hashes were compared, for all clients of a machine.
	fetched map[string]string
	// Folder, if not "", has the announcement and its files ([Fetch]), and gets the reports ([Send]), for another
	// carrier than HTTPS.
	Folder string
}

// Offer is what a client is about to do, for its owner to judge.
type Offer struct {
	*aggregate.Announcement
	Question       aggregate.Question
	Encoder        string  // SHA-256 of the encoder that came with the question, "" for the client's own
	Leader, Helper string  // to whom
	Texts          int     // from which the vector is computed
	Bytes          int     // of both reports
	Received       int     // bytes of the question
	Cost, Spent    float64 // ε of this answer alone, and of all answers with it
	Epsilon, Delta float64 // the client's budget
}

// Responder answers announcements of two aggregators for one client.
type Responder struct {
	ResponderOptions
	remotes   map[aggregate.Role]carrier
	ledger    *ledger.Ledger
	confirmed bool
}

// ErrNotConfirmed marks the work that the client's owner did not agree to.
var ErrNotConfirmed = errors.New("nothing was sent: the owner of the texts did not agree")

// NewResponder opens the client's own record, or makes it. A [Group]'s clients' records are opened when charged.
func NewResponder(o ResponderOptions) (*Responder, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fault.User(err)
	}
	atomicfile.RemoveAbandoned(o.Dir)
	r := &Responder{ResponderOptions: o}
	r.Files = cmp.Or(r.Files, o.Dir)
	var err error
	if r.remotes = o.carriers; r.remotes == nil {
		r.forgetPast()
		if r.remotes, err = carriers(o.Federation, o.Folder, o.Tell); err != nil {
			return nil, err
		}
		if err = r.open(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// open opens the record, once.
func (r *Responder) open() (err error) {
	if r.ledger != nil {
		return nil
	}
	r.ledger, err = ledger.Obtain(filepath.Join(r.Dir, "ledger.jsonl"),
		ledger.Budget{Epsilon: r.Epsilon, Delta: r.Delta, Mechanism: "gaussian", Unit: "this client",
			Relation: accountant.ZeroOut, Clients: 1, InsecureSeededNoise: r.InsecureSeeds})
	if err != nil {
		err = fmt.Errorf("client: the record of what was answered: %w", err)
	}
	return err
}

// Close ends the use of the record and of connections.
func (r *Responder) Close() error {
	if r.carriers == nil {
		for _, remote := range r.remotes {
			remote.Close()
		}
	}
	if r.ledger == nil {
		return nil
	}
	return r.ledger.Close()
}

// Spent is the ε of all answers so far.
func (r *Responder) Spent() (float64, error) { return r.ledger.Spent() }

// Next waits for an announcement that this client has not answered. Both aggregators must announce it. One whose reports
// this client has made and not sent comes first, until its deadline, whatever is announced now.
func (r *Responder) Next(ctx context.Context, every time.Duration) (*aggregate.Announcement, error) {
	if r.Folder != "" { // also if it was answered: the carrier may have lost the reports
		return r.remotes[aggregate.Leader].Current(ctx)
	}
	if a := unfinished(r.Dir); a != nil {
		return a, nil
	}
	return next(ctx, r.remotes, every, func(a *aggregate.Announcement) bool { return !r.sent(a) })
}

// begun names the file with an announcement whose answer is not sent.
const begun = "announcement"

// unfinished is an announcement in dir whose answer was begun and is not sent, and whose deadline has not come; nil for
// none.
func unfinished(dir string) *aggregate.Announcement {
	for _, a := range begunIn(dir) {
		if time.Now().Before(a.Ends()) {
			return a
		}
	}
	return nil
}

// begunIn are the announcements in dir whose answers were begun. What cannot be read is none: [next] waits for what is
// announced.
func begunIn(dir string) (list []*aggregate.Announcement) {
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if filepath.Ext(f.Name()) != "."+begun {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			continue
		}
		if a, err := aggregate.ParseAnnouncement(content); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// next waits for an announcement of both aggregators that is wanted.
func next(ctx context.Context, remotes map[aggregate.Role]carrier, every time.Duration,
	wanted func(*aggregate.Announcement) bool) (*aggregate.Announcement, error) {
	for {
		a, err := remotes[aggregate.Leader].Current(ctx)
		if err != nil {
			return nil, err
		}
		if a != nil && wanted(a) {
			other, err := remotes[aggregate.Helper].Current(ctx)
			if err != nil {
				return nil, err
			}
			if other != nil && other.ID() == a.ID() {
				return a, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(every):
		}
	}
}

// forgetPast removes reports whose deadline is past.
func (r *Responder) forgetPast() {
	for _, a := range begunIn(r.Dir) {
		if !time.Now().Before(a.Ends()) {
			_, _, _ = r.remove(a, begun), r.remove(a, string(aggregate.Leader)), r.remove(a, string(aggregate.Helper))
		}
	}
}

func (r *Responder) path(a *aggregate.Announcement, name string) string {
	return filepath.Join(r.Dir, a.ID().String()+"."+name)
}

// sent reports whether both reports were uploaded.
func (r *Responder) sent(a *aggregate.Announcement) bool { return r.has(a, "sent") }

// has reports whether a file of an announcement is there.
func (r *Responder) has(a *aggregate.Announcement, name string) bool {
	_, err := os.Stat(r.path(a, name))
	return err == nil
}

// Answer computes the client's vector, charges the client's own record and uploads a share to each aggregator.
// Answering again, after a crash too, charges nothing more and sends the same bytes. When it uploads does not depend on
// the texts: a vector that takes more than half of the time that the round leaves is replaced by zeros.
func (r *Responder) Answer(ctx context.Context, a *aggregate.Announcement) error {
	t, err := r.times(a, r.has(a, begun), 0)
	if err == nil {
		_, err = r.reports(ctx, a, t.ready)
	}
	if err == nil {
		err = t.wait(ctx)
	}
	if err == nil {
		err = r.charge(a)
	}
	if err != nil {
		return err
	}
	return r.send(ctx, a)
}

// send uploads the reports that were made and charged.
func (r *Responder) send(ctx context.Context, a *aggregate.Announcement) error {
	reports, err := r.reports(ctx, a, time.Time{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, a.Ends(), fmt.Errorf("the deadline of round %d is past", a.Round))
	defer cancel()
	var refused error
	for _, role := range aggregate.Roles {
		if err := r.remotes[role].Report(ctx, reports[role]); err != nil {
			refused = errors.Join(refused, fmt.Errorf("client: upload to the %s: %w", role, errors.Join(context.Cause(ctx), err)))
		}
	}
	if final := new(service.Refused); errors.As(refused, &final) && ctx.Err() == nil {
		return errors.Join(refused, r.remove(a, begun)) // it would be refused again
	}
	if refused != nil || r.Folder != "" { // from where the reports may be made again
		return refused
	}
	if err := atomicfile.WriteBytes(r.path(a, "sent"), nil); err != nil {
		return err
	}
	return errors.Join(r.remove(a, begun), // first: with it, another process would answer again
		r.remove(a, string(aggregate.Leader)), r.remove(a, string(aggregate.Helper)))
}

// remove removes a file of an announcement, if it is there.
func (r *Responder) remove(a *aggregate.Announcement, name string) error {
	if err := os.Remove(r.path(a, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ErrNotEnrolled marks a client of whom an aggregator takes no reports.
var ErrNotEnrolled = errors.New("does not know this client's key")

// checkEnrolled refuses a client whose key the aggregators do not know, before it is charged.
func (r *Responder) checkEnrolled(ctx context.Context, a *aggregate.Announcement) error {
	ctx, cancel := context.WithDeadline(ctx, a.Ends())
	defer cancel()
	for _, role := range aggregate.Roles {
		if !r.enrolled && !r.remotes[role].Enrolled(ctx, r.Key.Public().(ed25519.PublicKey)) {
			return fault.Userf("client: the %s %w, or its line was revoked: the federation's operator must add its line to "+
				"enrolled.txt. Nothing was charged", role, ErrNotEnrolled)
		}
	}
	return nil
}

// reports are the reports of an announcement to both aggregators: those on disk, or new ones of a vector that is zeros if
// it is not ready in time.
func (r *Responder) reports(ctx context.Context, a *aggregate.Announcement,
	ready time.Time) (map[aggregate.Role][]byte, error) {
	out := map[aggregate.Role][]byte{}
	for _, role := range aggregate.Roles {
		if content, err := os.ReadFile(r.path(a, string(role))); err == nil {
			out[role] = content
		}
	}
	if len(out) == len(aggregate.Roles) {
		return out, nil
	}
	if err := r.affordable(a); err != nil {
		return nil, err
	}
	if err := r.checkEnrolled(ctx, a); err != nil {
		return nil, err
	}
	vector, offer, err := r.vector(ctx, a, ready)
	if err != nil {
		return nil, err
	}
	if r.Confirm != nil && (!r.confirmed || !r.mayUse(a.Encoder)) {
		if err := r.Confirm(*offer); err != nil {
			return nil, err
		}
		r.agreed = a.Encoder
	}
	r.confirmed = true
	shares := map[aggregate.Role][]byte{}
	shares[aggregate.Leader], shares[aggregate.Helper], err = a.Split(r.Key.Public().(ed25519.PublicKey), vector)
	if err != nil {
		return nil, err
	}
	for _, role := range aggregate.Roles {
		key, err := r.Federation.Party(role).SealingKey()
		if err != nil {
			return nil, err
		}
		if out[role], err = aggregate.Seal(a, role, key, r.Key, shares[role]); err != nil {
			return nil, err
		}
	}
	for _, role := range aggregate.Roles {
		if err := atomicfile.WriteBytes(r.path(a, string(role)), out[role]); err != nil {
			return nil, err
		}
	}
	return out, atomicfile.WriteBytes(r.path(a, begun), a.Encode())
}

// vector is the client's vector in steps of the grid, or zeros if it is not ready in time, and what is offered for it.
func (r *Responder) vector(ctx context.Context, a *aggregate.Announcement, ready time.Time) ([]int64, *Offer, error) {
	fail := func(err error) ([]int64, *Offer, error) { return nil, nil, fmt.Errorf("client: %w", err) }
	path, err := r.fetch(ctx, a.Question)
	if err != nil {
		return fail(err)
	}
	q, asked, err := aggregate.ReadQuestion(path)
	if err != nil {
		return fail(err)
	}
	if q.Round != int(a.Round) || asked.Name() != a.Query || asked.Bound() != a.Bound || asked.Len() != int(a.Values) ||
		q.Clients != int(a.Clients) {
		return fail(fmt.Errorf("the question is %q of %d clients in round %d, %d values with norm bound %g; "+
			"announced was %q of %d in %d, %d with %g",
			asked.Name(), q.Clients, q.Round, asked.Len(), asked.Bound(), a.Query, a.Clients, a.Round, a.Values, a.Bound))
	}
	compute, err := r.computing(ctx, a, q, asked)
	if err != nil {
		return fail(err)
	}
	grid, err := a.Grid()
	if err != nil {
		return fail(err)
	}
	steps, texts, err := r.inTime(ctx, a, ready, func(ctx context.Context) ([]int64, int, error) {
		texts, err := r.Texts(q.Since)
		if err != nil { // nothing that others can see may depend on the texts
			if texts = nil; r.Tell != nil {
				r.Tell(fmt.Sprintf("round %d: the texts cannot be read, so the vector is zeros: %v", a.Round, err))
			}
		}
		steps, err := compute.steps(ctx, asked, texts, grid)
		return steps, len(texts), err
	})
	if err != nil {
		return fail(err)
	}
	if a.Rate > 0 && !noise.Chance(noise.Secure(), a.Rate) {
		clear(steps) // its own coin: nobody sees who takes part
	}
	entry, err := own(a)
	if err != nil {
		return fail(err)
	}
	announced := ""
	if r.Encoder == "" {
		announced = hex.EncodeToString(a.Encoder)
	}
	offer := &Offer{Announcement: a, Question: q, Encoder: announced, Leader: r.Federation.Leader.URL, Helper: r.Federation.Helper.URL,
		Texts: texts, Epsilon: r.Epsilon, Delta: r.Delta,
		Bytes: int(aggregate.MaxReport(a, aggregate.Leader) + aggregate.MaxReport(a, aggregate.Helper))}
	if file, err := os.Stat(path); err == nil {
		offer.Received = int(file.Size())
	}
	if offer.Cost, err = ledger.Spent(r.ledger.Budget(), []ledger.Entry{entry}); err != nil {
		return fail(err)
	}
	if offer.Spent, err = r.ledger.After(entry, 1); err != nil {
		return fail(err)
	}
	return steps, offer, nil
}

// fetch is the path of a file that was announced by its hash.
func (r *Responder) fetch(ctx context.Context, hash []byte) (path string, err error) {
	if path = r.fetched[string(hash)]; path != "" {
		return path, nil
	}
	if path, err = fetch(ctx, r.remotes[aggregate.Leader], r.Files, hash); err == nil && r.fetched != nil {
		r.fetched[string(hash)] = path
	}
	return path, err
}

// fetch gets a file that was announced by its hash from a carrier, once, and returns its path in dir.
func fetch(ctx context.Context, from carrier, dir string, hash []byte) (string, error) {
	path := filepath.Join(dir, hex.EncodeToString(hash)+".file")
	if content, err := os.ReadFile(path); err == nil {
		if sum := sha256.Sum256(content); bytes.Equal(sum[:], hash) {
			return path, nil
		}
	}
	content, err := from.File(ctx, hash)
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], hash) {
		return "", fault.Userf("the file that was announced as %x has the hash %x", hash, sum)
	}
	return path, atomicfile.WriteBytes(path, content)
}
