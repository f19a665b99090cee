package aggregate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"

	"popri/fedsim/aggregate/rangeproof"
	"popri/fedsim/noise"
	"popri/internal/atomicfile"
)

// The files of a batch whose reports have proofs.
const (
	halfFile    = "verify.bin"      // this aggregator's half of the key by which proofs are checked
	peerFile    = "verify.peer.bin" // the other one's, as it was first told
	bothFile    = "both.bin"        // identifiers of the reports that both hold
	recordsFile = "records.bin"     // what this aggregator says of each of these to the other one
	countedFile = "counted.bin"     // identifiers of those whose proofs hold
	refusedFile = "refused.txt"     // the others, with the reason
)

// keyBytes is the length of a half of a verification key.
const keyBytes = 32

// Proofs are some of the records that an aggregator sends the other one about the reports that both hold.
type Proofs struct {
	Version      uint64
	Role         string
	Announcement []byte
	Batch        []byte // SHA-256 of the identifiers of the reports that both hold
	First        uint64 // index of the first record's report among these, from 0
	Records      []byte
}

func (p *Proofs) fields() []any {
	return []any{&p.Version, &p.Role, &p.Announcement, &p.Batch, &p.First, &p.Records}
}

// Encode is the message.
func (p *Proofs) Encode() []byte { return encode(p) }

// ParseProofs reads records of proofs.
func ParseProofs(b []byte) (*Proofs, error) {
	p := &Proofs{}
	if err := decode(b, p); err != nil {
		return nil, fmt.Errorf("aggregate: records of proofs: %w", err)
	}
	return p, nil
}

// pageBytes is about how many bytes of records a message has.
const pageBytes = 4 << 20

// drawHalf draws this aggregator's half of the verification key.
func (b *batch) drawHalf() error {
	half := make([]byte, keyBytes)
	_, _ = rand.Read(half) // it never fails: it ends the program instead
	return atomicfile.WriteBytes(b.path(halfFile), half)
}

// asked is a batch whose reports have proofs and which takes no more reports.
func (a *Aggregator) asked(id ID) (*batch, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b := a.batches[id]
	switch {
	case b == nil:
		return nil, Refuse(Unannounced, "nothing with the hash %.6x was announced", id)
	case b.Proof == NoProof:
		return nil, Refuse(Malformed, "the reports of round %d have no proofs", b.Round)
	case b.frozen == nil && !b.done:
		return nil, Refuse(Waiting, "reports are still taken; the deadline is %v", b.Ends())
	}
	return b, nil
}

// VerifyHalf is this aggregator's half of the key by which both check proofs. No client may know it.
func (a *Aggregator) VerifyHalf(id ID) ([]byte, error) {
	b, err := a.asked(id)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(b.path(halfFile))
}

// Proves reports whether the reports of a batch have proofs that are not decided about.
func (a *Aggregator) Proves(id ID) bool {
	b, err := a.asked(id)
	return err == nil && !b.has(countedFile) && !b.has(shareFile) && !b.has(abandonedFile)
}

// Verify checks this aggregator's shares of the reports that both hold, given the identifiers that the other one holds
// and its half of the key, and keeps what is to be told to the other one. Called again, with other identifiers or
// another half too, it says the same: the secrecy of the values rests on one check of each report.
func (a *Aggregator) Verify(ctx context.Context, id ID, peer []ReportID, half []byte) error {
	b, err := a.asked(id)
	if err != nil {
		return err
	}
	a.settling.Lock()
	defer a.settling.Unlock()
	if b.has(recordsFile) {
		return nil
	}
	both, err := b.both(peer)
	if err != nil || len(both) < int(b.Least) { // nothing will be summed
		return err
	}
	if len(half) != keyBytes {
		return Refuse(Malformed, "%d bytes of a verification key, want %d", len(half), keyBytes)
	}
	if _, err := first(b.path(peerFile), half); err != nil {
		return err
	}
	scheme, err := b.scheme()
	if err != nil {
		return err
	}
	unfinished := b.path(recordsFile + ".part") // an earlier process may have left one
	f, err := os.Create(unfinished)
	if err != nil {
		return err
	}
	sum, err := a.check(ctx, b, both, func(place int, record []byte) error {
		_, err := f.WriteAt(record, int64(place)*int64(scheme.RecordBytes()))
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("aggregate: round %d: %w", b.Round, err)
	}
	if err := a.at("checked"); err != nil {
		return err
	}
	b.optimistic = sum
	if err := os.Rename(unfinished, b.path(recordsFile)); err != nil {
		return err
	}
	return atomicfile.SyncDir(b.dir)
}

// first keeps content in a file, unless the file is there, and returns what the file has.
func first(path string, content []byte) ([]byte, error) {
	held, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return content, atomicfile.WriteBytes(path, content)
	}
	return held, err
}

// both are the identifiers of the reports that both aggregators hold, by what the other one said first.
func (b *batch) both(peer []ReportID) ([]ReportID, error) {
	content, err := first(b.path(bothFile), AppendIDs(nil, Intersect(b.frozen, peer)))
	return ParseIDs(content), err
}

// check checks the proofs of the reports with these identifiers on all cores, gives each one's record and returns the
// sum of the shares of their values. The shares of damaged reports, whose records never hold, are left out.
func (a *Aggregator) check(ctx context.Context, b *batch, ids []ReportID, record func(place int, record []byte) error) (
	rangeproof.Vector, error) {
	scheme, err := b.scheme()
	if err != nil {
		return nil, err
	}
	key, err := b.verifyKey(a.Role)
	if err != nil {
		return nil, err
	}
	type job struct {
		*Report
		place int
	}
	jobs := make(chan job)
	var done sync.WaitGroup
	sums, errs := make([]rangeproof.Vector, runtime.GOMAXPROCS(0)), make([]error, runtime.GOMAXPROCS(0))
	for w := range sums {
		sums[w] = scheme.Zero()
		done.Go(func() {
			for j := range jobs {
				share, err := j.open(b.Announcement, a.Role, a.Key)
				if err != nil {
					errs[w] = err
					continue
				}
				said, own, err := scheme.Check(key, reportID(b.id, j.Client), a.Role.party(), share)
				if err != nil {
					said, own = scheme.Damaged(), nil
				}
				if err := record(j.place, said); err != nil {
					errs[w] = err
				}
				if own != nil {
					sums[w].AddAssign(own)
				}
			}
		})
	}
	found := 0
	err = b.each(func(r *Report, _ []byte, _ int64) error {
		if place, wanted := slices.BinarySearchFunc(ids, reportID(b.id, r.Client), compareIDs); wanted {
			found++
			jobs <- job{r, place}
		}
		return ctx.Err()
	})
	close(jobs)
	done.Wait()
	if err == nil && found != len(ids) {
		err = fmt.Errorf("%d reports are held, want %d", found, len(ids))
	}
	for _, s := range sums[1:] {
		sums[0].AddAssign(s)
	}
	return sums[0], errors.Join(append(errs, err)...)
}

// verifyKey is the key by which proofs are checked, from both halves.
func (b *batch) verifyKey(own Role) (key [32]byte, err error) {
	files := map[Role]string{own: halfFile, own.Peer(): peerFile}
	h := sha256.New()
	h.Write([]byte("popri verify 1\n"))
	h.Write(b.id[:])
	for _, role := range Roles {
		half, err := os.ReadFile(b.path(files[role]))
		if err != nil {
			return key, err
		}
		h.Write(half)
	}
	return [32]byte(h.Sum(nil)), nil
}

// Records is the message of records from an index on, as many as a message has.
func (a *Aggregator) Records(id ID, from uint64) ([]byte, error) {
	b, err := a.asked(id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(b.path(recordsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Refuse(Waiting, "the proofs are not checked yet")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	both, err := os.ReadFile(b.path(bothFile))
	if err != nil {
		return nil, err
	}
	scheme, err := b.scheme()
	if err != nil {
		return nil, err
	}
	size, n := scheme.RecordBytes(), uint64(len(ParseIDs(both)))
	if from > n {
		return nil, Refuse(Malformed, "records from %d on, there are %d", from, n)
	}
	perPage := uint64(max(1, pageBytes/size))
	batch := sha256.Sum256(both)
	p := &Proofs{Version: Version, Role: string(a.Role), Announcement: b.id[:], Batch: batch[:], First: from,
		Records: make([]byte, min(n-from, perPage)*uint64(size))}
	if _, err := f.ReadAt(p.Records, int64(from)*int64(size)); err != nil {
		return nil, err
	}
	return p.Encode(), nil
}

// Decide decides which reports count: those whose records of both aggregators hold. get asks the other one for its
// records from an index on. Both come to the same decision. Called again, it changes nothing.
func (a *Aggregator) Decide(id ID, get func(from uint64) (*Proofs, error)) error {
	b, err := a.asked(id)
	if err != nil {
		return err
	}
	a.settling.Lock()
	defer a.settling.Unlock()
	if b.has(countedFile) {
		return nil
	}
	content, err := os.ReadFile(b.path(bothFile))
	if err != nil {
		return err
	}
	both := ParseIDs(content)
	if len(both) < int(b.Least) { // nothing will be summed
		return nil
	}
	f, err := os.Open(b.path(recordsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	scheme, err := b.scheme()
	if err != nil {
		return err
	}
	size := scheme.RecordBytes()
	batch := sha256.Sum256(content)
	var counted []ReportID
	var refused []byte
	for at := 0; at < len(both); {
		p, err := get(uint64(at))
		if err != nil {
			return err
		}
		if err := a.checkRecords(p, id, batch, at, len(both)-at, size); err != nil {
			return err
		}
		n := len(p.Records) / size
		own := make([]byte, n*size)
		if _, err := f.ReadAt(own, int64(at)*int64(size)); err != nil {
			return err
		}
		for i := range n {
			mine, theirs := own[i*size:(i+1)*size], p.Records[i*size:(i+1)*size]
			if a.Role == Helper {
				mine, theirs = theirs, mine
			}
			if scheme.Holds(mine, theirs) {
				counted = append(counted, both[at+i])
			} else {
				refused = fmt.Appendf(refused, "%x unproved\n", both[at+i])
			}
		}
		at += n
	}
	if len(counted) < len(both) { // what was summed has refused reports in it
		b.optimistic = nil
	}
	if err := atomicfile.WriteBytes(b.path(refusedFile), refused); err != nil {
		return err
	}
	if err := a.at("decided"); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(b.path(countedFile), AppendIDs(nil, counted)); err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b.refused = len(both) - len(counted)
	return nil
}

// checkRecords refuses records of the other aggregator that are not those from the index at on, at most left of them,
// of this batch.
func (a *Aggregator) checkRecords(p *Proofs, id ID, batch [sha256.Size]byte, at, left, size int) error {
	switch n := len(p.Records) / size; {
	case p.Version != Version || p.Role != string(a.Role.Peer()) || string(p.Announcement) != string(id[:]) ||
		p.First != uint64(at):
		return Refuse(Malformed, "records of the %q from %d on about %.6x, want records of the %q from %d on about %.6x",
			p.Role, p.First, p.Announcement, a.Role.Peer(), at, id)
	case string(p.Batch) != string(batch[:]):
		return Refuse(Malformed, "the %s checks other reports: their hash is %.6x, want %.6x", p.Role, p.Batch, batch)
	case n == 0 || n > left || len(p.Records)%size != 0:
		return Refuse(Malformed, "%d bytes of records, want up to %d of %d bytes", len(p.Records), left, size)
	}
	return nil
}

// countedReports are the identifiers of the reports that count, and the number of those that were refused.
func (b *batch) countedReports() ([]ReportID, int, error) {
	content, err := os.ReadFile(b.path(countedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, Refuse(Waiting, "the proofs are not checked yet")
	}
	if err != nil {
		return nil, 0, err
	}
	both, err := os.ReadFile(b.path(bothFile))
	ids := ParseIDs(content)
	return ids, len(ParseIDs(both)) - len(ids), err
}

// drawProved is the noised share of reports that were proved.
func (a *Aggregator) drawProved(ctx context.Context, b *batch, ids []ReportID) ([]uint64, error) {
	total := b.optimistic
	if b.optimistic = nil; total == nil { // some were refused, or an earlier process checked them
		var err error
		if total, err = a.check(ctx, b, ids, func(int, []byte) error { return nil }); err != nil {
			return nil, err
		}
	}
	grid, err := b.Grid()
	if err != nil {
		return nil, err
	}
	draw, err := noise.NewGaussian(noise.Party(a.InsecureSeed, string(a.Role), int(b.Round)), grid.Units)
	if err != nil {
		return nil, err
	}
	for i := range total {
		rangeproof.Add(&total[i], draw.Next())
	}
	return rangeproof.Words(total)
}
