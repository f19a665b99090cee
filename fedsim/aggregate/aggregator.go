package aggregate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/sealing"
	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// Config has what an aggregator is made of.
type Config struct {
	Role Role
	Key  sealing.PrivateKey
	// Enrolled are the public keys of all clients. Their number is the number in the ledger's budget.
	Enrolled []ed25519.PublicKey
	// Revoked are the keys whose reports are not taken any more.
	Revoked []ed25519.PublicKey
	// Ledger is this aggregator's own: it is charged for each noised share before that can be seen.
	Ledger *ledger.Ledger
	// Dir has one folder for each batch.
	Dir string
	// InsecureSeed takes the noise from this seed, for tests; the ledger's budget must say so, too.
	InsecureSeed *uint64
	Now          func() time.Time // nil: the machine's clock
	// crash stands for a process that ends at the named stage of a share; tests set it.
	crash func(stage string) error
}

// Aggregator is one of the two. Its methods are safe for concurrent use.
type Aggregator struct {
	Config
	enrolled map[string]bool

	// settling is held while proofs are checked and a share is made, which takes long; mutex is held for moments.
	settling sync.Mutex
	mutex    sync.Mutex
	batches  map[ID]*batch
	current  *batch // the newest; nil if there is none
	// invalid counts refused uploads until a share says how many there were. It is not on disk.
	invalid uint64
}

// Open opens an aggregator, with the batches that an earlier process left. A share that the ledger does not know is
// [ledger.ErrUncharged].
func Open(c Config) (*Aggregator, error) {
	if c.Role != Leader && c.Role != Helper {
		return nil, fmt.Errorf("aggregate: the role %q, want %q or %q", c.Role, Leader, Helper)
	}
	budget := c.Ledger.Budget()
	if budget.Clients != len(c.Enrolled) {
		return nil, fmt.Errorf("aggregate: the ledger's budget is for %d clients, %d are enrolled", budget.Clients,
			len(c.Enrolled))
	}
	if budget.InsecureSeededNoise != (c.InsecureSeed != nil) {
		return nil, fmt.Errorf("aggregate: insecure seeded noise is %v here and %v in the ledger",
			c.InsecureSeed != nil, budget.InsecureSeededNoise)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	a := &Aggregator{Config: c, enrolled: map[string]bool{}, batches: map[ID]*batch{}}
	for _, key := range c.Enrolled {
		a.enrolled[string(key)] = true
	}
	for _, key := range c.Revoked {
		a.enrolled[string(key)] = false
	}
	if len(a.enrolled) != len(c.Enrolled) {
		return nil, fmt.Errorf("aggregate: of %d enrolled keys, %d are different: a client with two keys counts twice",
			len(c.Enrolled), len(a.enrolled))
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := atomicfile.RemoveTemporary(c.Dir); err != nil {
		return nil, err
	}
	for number := 1; ; number++ {
		b, err := openBatch(a.folder(number))
		if errors.Is(err, fs.ErrNotExist) {
			return a, nil
		}
		if err == nil && b.has(shareFile) {
			_, _, err = a.Ledger.Release(a.release(b)) // it is there, and must be charged
		}
		if errors.Is(err, ledger.ErrUncharged) {
			return nil, fault.Userf("aggregate: %w: it was published, so the ledger is another one or has lost entries; "+
				"put its newest copy back, for a fresh one would not know what was spent", err)
		}
		if err != nil {
			return nil, fmt.Errorf("aggregate: %w", err)
		}
		a.take(b)
	}
}

// Close ends the use of the batches' files; the ledger is the caller's.
func (a *Aggregator) Close() error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.current != nil && a.current.log != nil {
		return a.current.log.Close()
	}
	return nil
}

func (a *Aggregator) folder(number int) string {
	return filepath.Join(a.Dir, fmt.Sprintf("%06d", number))
}

// take makes a batch the current one.
func (a *Aggregator) take(b *batch) { a.batches[b.id], a.current = b, b }

// Announce opens a batch, unless another is open or the ledger does not cover its share. The same announcement again
// changes nothing.
func (a *Aggregator) Announce(content []byte) error {
	asked, err := ParseAnnouncement(content)
	if err != nil {
		return &Refusal{Malformed, err}
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	switch _, known := a.batches[asked.ID()]; {
	case known:
		return nil
	case a.current != nil && !a.current.done:
		return Refuse(Busy, "the batch of round %d is open until %v", a.current.Round, a.current.Ends())
	case asked.Clients != uint64(len(a.Enrolled)):
		return Refuse(Malformed, "an announcement for %d clients, %d are enrolled", asked.Clients, len(a.Enrolled))
	case asked.InsecureSeed != (a.InsecureSeed != nil):
		return Refuse(Malformed, "an announcement with seeded noise: %v, here it is %v", asked.InsecureSeed,
			a.InsecureSeed != nil)
	case !a.Now().Before(asked.Ends()):
		return Refuse(Late, "an announcement whose deadline is past: %v", asked.Ends())
	}
	charge, err := asked.Charge(int(asked.Clients))
	if err == nil {
		err = a.Ledger.Covers(charge)
	}
	if over, ok := errors.AsType[*ledger.BudgetError](err); ok {
		return Refuse(Budget, "ε = %s is spent here, this release would make it %s of %g at δ = %.3g",
			accountant.RoundUp(over.Spent, 6), accountant.RoundUp(over.After, 6), over.Epsilon, over.Delta)
	}
	if err != nil {
		return err
	}
	b := &batch{Announcement: asked, id: asked.ID(), dir: a.folder(len(a.batches) + 1), held: map[ReportID]place{}}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	if err := b.openLog(); err != nil {
		return err
	}
	if asked.Proof != NoProof {
		if err := b.drawHalf(); err != nil {
			return err
		}
	}
	if err := atomicfile.WriteBytes(b.path(announcementFile), content); err != nil { // last: it makes the folder a batch
		return err
	}
	a.take(b)
	return nil
}

// Current is the announcement that reports are taken for; nil if there is none.
func (a *Aggregator) Current() *Announcement {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if b := a.current; b != nil && !b.done && b.frozen == nil && a.Now().Before(b.Ends()) {
		return b.Announcement
	}
	return nil
}

// Accept takes a report of a client. Errors that are a [Refusal] are the client's.
func (a *Aggregator) Accept(content []byte) error {
	r := &Report{}
	if err := decode(content, r); err != nil || r.Version != Version || len(r.Announcement) != sha256.Size {
		return Refuse(Malformed, "%d bytes are no report of version %d", len(content), Version)
	}
	hash := sha256.Sum256(content)
	b, err := a.taking(ID(r.Announcement), r.Client, hash)
	if err != nil {
		return err
	}
	if !a.enrolled[string(r.Client)] {
		return Refuse(NotEnrolled, "the client is not enrolled")
	}
	if !ed25519.Verify(r.Client, r.signed(a.Role), r.Signature) {
		return Refuse(Forged, "the signature is not the client's")
	}
	if _, err := r.open(b.Announcement, a.Role, a.Key); err != nil {
		return Refuse(Malformed, "%w", err)
	}
	id := reportID(b.id, r.Client)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if _, err := a.open(b.id); err != nil { // the deadline came meanwhile
		return err
	}
	if held, ok := b.held[id]; ok {
		if held.sum == hash {
			return Refuse(Repeated, "the report is held already")
		}
		return Refuse(Replaced, "another report of this client is held")
	}
	return b.append(id, content)
}

// IsEnrolled reports whether reports of a client's key are taken.
func (a *Aggregator) IsEnrolled(key ed25519.PublicKey) bool { return a.enrolled[string(key)] }

// CountRefusal counts an upload that was refused, and will be if it is sent again: the next share says how many there
// were. How many were late is not told: which clients are slow may depend on what they wrote.
func (a *Aggregator) CountRefusal(o Outcome) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if o != Late {
		a.invalid++
	}
}

// taking is the batch of an announcement that takes reports. One that is held is not late, whenever it comes again: a
// client that died between its two uploads must not stop at the first one.
func (a *Aggregator) taking(id ID, client ed25519.PublicKey, hash [sha256.Size]byte) (*batch, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if b := a.batches[id]; b != nil && b.held[reportID(id, client)].sum == hash {
		return nil, Refuse(Repeated, "the report is held already")
	}
	return a.open(id)
}

func (a *Aggregator) open(id ID) (*batch, error) {
	b := a.batches[id]
	switch {
	case b == nil:
		return nil, Refuse(Unannounced, "nothing with the hash %.6x was announced", id)
	case b.done, b.frozen != nil, !a.Now().Before(b.Ends()):
		return nil, Refuse(Late, "the deadline was %v", b.Ends())
	}
	return b, nil
}

// IDs ends the taking of reports if the deadline has come or all clients have reported, and returns the identifiers of
// the reports that are held. They never change afterwards.
func (a *Aggregator) IDs(id ID) ([]ReportID, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.ids(id)
}

func (a *Aggregator) ids(id ID) ([]ReportID, error) {
	b := a.batches[id]
	switch {
	case b == nil:
		return nil, Refuse(Unannounced, "nothing with the hash %.6x was announced", id)
	case b.done:
		return b.ids()
	case b.frozen != nil:
		return b.frozen, nil
	case a.Now().Before(b.Ends()) && !a.full(b):
		return nil, Refuse(Waiting, "%d of %d clients have reported; the deadline is %v", len(b.held), b.Clients, b.Ends())
	}
	if err := b.freeze(); err != nil {
		return nil, err
	}
	return b.frozen, nil
}

// Aggregate makes the share of a batch, given the identifiers that the other aggregator holds. It is charged before it
// can be seen, and a batch has one: called again, after a crash too, Aggregate makes no other.
func (a *Aggregator) Aggregate(ctx context.Context, id ID, peer []ReportID) error {
	own, err := a.IDs(id)
	if err != nil {
		return err
	}
	a.settling.Lock()
	defer a.settling.Unlock()
	a.mutex.Lock()
	b := a.batches[id]
	done := b.done
	a.mutex.Unlock()
	if done {
		return nil
	}
	release := a.release(b)
	release.Draw = func() ([]byte, error) { return a.share(ctx, b, own, peer) }
	_, _, err = a.Ledger.Release(release)
	if errors.Is(err, ledger.ErrBudget) || OutcomeOf(err) == Few {
		return a.abandon(b, err)
	}
	if err != nil {
		return fmt.Errorf("aggregate: round %d: %w", b.Round, err)
	}
	return a.finish(b, true)
}

// release is the release of a batch's share, without what draws it.
func (a *Aggregator) release(b *batch) ledger.Release {
	return ledger.Release{Final: b.path(shareFile), Pending: b.path(pendingFile), Crash: a.crash,
		Charge: func(content []byte) (ledger.Entry, error) {
			share, err := ParseShare(content)
			if err != nil {
				return ledger.Entry{}, err
			}
			return b.Charge(int(share.Reports))
		}}
}

// share draws the noised share of the reports that both aggregators hold, those whose proofs do not hold left out.
func (a *Aggregator) share(ctx context.Context, b *batch, own, peer []ReportID) ([]byte, error) {
	counted, refused := Intersect(own, peer), 0
	var err error
	if b.Proof != NoProof {
		if counted, err = b.both(peer); err != nil {
			return nil, err
		}
		if len(counted) >= int(b.Least) {
			if counted, refused, err = b.countedReports(); err != nil {
				return nil, err
			}
		}
	}
	if len(counted) < int(b.Least) {
		return nil, Refuse(Few, "%d reports are at both aggregators%s, want at least %d: nothing is summed",
			len(counted), without(refused), b.Least)
	}
	return a.draw(ctx, b, counted, refused)
}

// without says how many reports were refused.
func without(refused int) string {
	if refused == 0 {
		return ""
	}
	return fmt.Sprintf(" without the %d whose proofs do not hold", refused)
}

// finish ends a batch. If it has a share, the other aggregator has all that it needed of earlier batches.
func (a *Aggregator) finish(b *batch, share bool) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b.done = true
	if share {
		for _, earlier := range a.batches {
			if earlier == b {
				continue
			}
			if err := os.Remove(earlier.path(recordsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return b.forget()
}

// draw is the noised share of the reports with these identifiers.
func (a *Aggregator) draw(ctx context.Context, b *batch, ids []ReportID, refused int) ([]byte, error) {
	var values []uint64
	var err error
	if b.Proof == NoProof {
		values, err = a.drawSum(b, ids)
	} else {
		values, err = a.drawProved(ctx, b, ids)
	}
	if err != nil {
		return nil, err
	}
	batch := sha256.Sum256(AppendIDs(nil, ids))
	share := &Share{Version: Version, Role: string(a.Role), Announcement: b.id[:], Batch: batch[:],
		Reports: uint64(len(ids)), Values: values, Refused: uint64(refused)}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	share.Invalid, a.invalid = a.invalid, 0
	return share.Encode(), nil
}

// drawSum is the noised share of reports without proofs.
func (a *Aggregator) drawSum(b *batch, ids []ReportID) ([]uint64, error) {
	grid, err := b.Grid()
	if err != nil {
		return nil, err
	}
	values, err := b.sum(ids, a.Role, func(r *Report) ([]byte, error) { return r.open(b.Announcement, a.Role, a.Key) })
	if err != nil {
		return nil, err
	}
	return values, noise.Add(values, grid, noise.Party(a.InsecureSeed, string(a.Role), int(b.Round)))
}

// abandon ends a batch without a share, and returns why.
func (a *Aggregator) abandon(b *batch, why error) error {
	reason := why
	if r, ok := errors.AsType[*Refusal](why); ok {
		reason = r.err
	}
	if err := atomicfile.WriteBytes(b.path(abandonedFile), []byte(reason.Error()+"\n")); err != nil {
		return err
	}
	return errors.Join(why, a.finish(b, false))
}

func (a *Aggregator) at(stage string) error {
	if a.crash == nil {
		return nil
	}
	return a.crash(stage)
}

// Pending is the current batch, if it is not done; wait is the time until reports are taken no more, 0 if that is now
// or was before.
func (a *Aggregator) Pending() (id ID, wait time.Duration, ok bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.current == nil || a.current.done {
		return id, 0, false
	}
	if a.current.frozen == nil && !a.full(a.current) {
		wait = max(0, a.current.Ends().Sub(a.Now()))
	}
	return a.current.id, wait, true
}

// Share is the message of a batch's noised share.
func (a *Aggregator) Share(id ID) ([]byte, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b := a.batches[id]
	switch {
	case b == nil:
		return nil, Refuse(Unannounced, "nothing with the hash %.6x was announced", id)
	case !b.done:
		return nil, Refuse(Waiting, "%d of %d clients have reported; the deadline is %v", len(b.held), b.Clients, b.Ends())
	}
	content, err := os.ReadFile(b.path(shareFile))
	if errors.Is(err, fs.ErrNotExist) {
		why, err := os.ReadFile(b.path(abandonedFile))
		return nil, errors.Join(err, Refuse(Few, "there is no share: %s", bytes.TrimSpace(why)))
	}
	return content, err
}

// Counts are the figures of the current batch, for metrics: reports that are held until its share is made, and those
// whose proofs did not hold.
func (a *Aggregator) Counts() (round uint64, held, refused, batches int) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.current != nil {
		round, held, refused = a.current.Round, len(a.current.held), a.current.refused
	}
	return round, held, refused, len(a.batches)
}
