package aggregate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"popri/accountant/ledger"
	"popri/fedsim/aggregate/rangeproof"
	"popri/fedsim/noise"
)

// Version is the version of all messages.
const Version = 1

// Announcement asks the clients a question, with all that decides what a report is. It is public.
type Announcement struct {
	Version  uint64
	Nonce    string // drawn once, so that no report answers another announcement
	Round    uint64 // from 1
	Question []byte // SHA-256 of the question's file
	Encoder  []byte // SHA-256 of the encoder's file; empty: the clients have the encoder
	Query    string // name of the question
	Values   uint64 // of a vector
	Bound    float64
	Sigma    float64 // noise multiplier of each aggregator
	Clients  uint64  // enrolled
	Least    uint64  // reports below which nothing is summed
	Deadline uint64  // Unix time in seconds
	Rate     float64 // probability with which a client takes part, by its own coin; 0: all do
	// InsecureSeed says that the noise comes from a seed, for tests.
	InsecureSeed bool
	Proof        string // that reports have of their values: [NoProof] or [RangeProof]
}

// The proofs that reports can have.
const (
	NoProof    = ""
	RangeProof = "range" // each value is in the range of [Announcement.Bits]
)

func (a *Announcement) fields() []any {
	return []any{&a.Version, &a.Nonce, &a.Round, &a.Question, &a.Encoder, &a.Query, &a.Values, &a.Bound, &a.Sigma,
		&a.Clients, &a.Least, &a.Deadline, &a.Rate, &a.InsecureSeed, &a.Proof}
}

// Encode is the message; its SHA-256 is the announcement's [ID].
func (a *Announcement) Encode() []byte { return encode(a) }

// ParseAnnouncement reads and validates an announcement.
func ParseAnnouncement(b []byte) (*Announcement, error) {
	a := &Announcement{}
	if err := decode(b, a); err != nil {
		return nil, fmt.Errorf("aggregate: an announcement: %w", err)
	}
	return a, a.Validate()
}

// The limits of an announcement.
const (
	maxValues   = 1 << 22
	maxClients  = 1 << 32
	maxName     = 256
	maxDeadline = 1 << 40
)

// Validate returns an error that names a bad value.
func (a *Announcement) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("aggregate: an announcement of %w", fmt.Errorf(format, args...))
	}
	switch {
	case a.Version != Version:
		return fail("version %d, want %d", a.Version, Version)
	case a.Nonce == "" || len(a.Nonce) > maxName || a.Query == "" || len(a.Query) > maxName:
		return fail("the question %.40q with the nonce %.40q, want both of 1 to %d bytes", a.Query, a.Nonce, maxName)
	case a.Round < 1 || a.Round > math.MaxInt32:
		return fail("round %d, want 1 or more", a.Round)
	case len(a.Question) != sha256.Size || len(a.Encoder) != 0 && len(a.Encoder) != sha256.Size:
		return fail("a question and an encoder with hashes of %d and %d bytes, want %d", len(a.Question),
			len(a.Encoder), sha256.Size)
	case a.Values < 1 || a.Values > maxValues:
		return fail("%d values, want 1 to %d", a.Values, maxValues)
	case a.Clients < 2 || a.Clients > maxClients || a.Least < 2 || a.Least > a.Clients:
		return fail("%d clients of whom %d must report, want at least 2 and no more than there are", a.Clients, a.Least)
	case a.Deadline < 1 || a.Deadline > maxDeadline:
		return fail("the deadline %d", a.Deadline)
	case !(a.Rate >= 0 && a.Rate < 1):
		return fail("the rate %g, want 0 for all clients or a probability below 1", a.Rate)
	case !(a.Sigma > 0): // NewGrid accepts 0: no noise
		return fail("noise %g, want more than 0", a.Sigma)
	}
	if _, err := a.Grid(); err != nil {
		return fail("values that fit no grid: %w", err)
	}
	switch a.Proof {
	case NoProof:
	case RangeProof:
		if _, err := a.scheme(); err != nil {
			return fail("values that cannot be proved: %w", err)
		}
	default:
		return fail("the proof %.40q, want none or %q", a.Proof, RangeProof)
	}
	return nil
}

// Grid is the grid of the clients' vectors and of the noise.
func (a *Announcement) Grid() (noise.Grid, error) {
	return noise.NewGrid(a.Sigma, a.Bound, int(a.Values), int(a.Clients))
}

// Bits is the number of bits of each value that a range proof allows: the fewest in which a value of a bounded vector
// fits.
func (a *Announcement) Bits() (int, error) {
	grid, err := a.Grid()
	return grid.Bits(a.Bound), err
}

// scheme is the scheme of the range proofs. A proof for another announcement does not hold.
func (a *Announcement) scheme() (*rangeproof.Scheme, error) {
	bits, err := a.Bits()
	if err != nil {
		return nil, err
	}
	id := a.ID()
	return rangeproof.New(int(a.Values), bits, append([]byte("popri range 1\n"), id[:]...))
}

// shareBytes is the length of a share for an aggregator.
func (a *Announcement) shareBytes(role Role) (int, error) {
	if a.Proof == RangeProof {
		scheme, err := a.scheme()
		if err != nil {
			return 0, err
		}
		return scheme.ShareBytes(role.party()), nil
	}
	if role == Helper {
		return seedBytes, nil
	}
	return 8 * int(a.Values), nil
}

// Ends is the deadline.
func (a *Announcement) Ends() time.Time { return time.Unix(int64(a.Deadline), 0) }

// Charge is what a noised sum of reports costs, without its hash.
func (a *Announcement) Charge(reports int) (ledger.Entry, error) {
	grid, err := a.Grid()
	e := ledger.Entry{Round: int(a.Round), Query: a.Query, Sigma: a.Sigma, Sensitivity: grid.Sensitivity,
		Sampling: ledger.Full, Cohort: int(a.Clients), Clients: reports}
	if a.Rate > 0 {
		e.Sampling, e.SamplingRate = ledger.Poisson, a.Rate
		e.Cohort = ledger.Expected(a.Rate, int(a.Clients))
		e.Clients = ledger.Expected(a.Rate, reports)
	}
	return e, err
}

// ID names an announcement, and the batch of reports that answer it.
type ID [sha256.Size]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ID is the SHA-256 of the message.
func (a *Announcement) ID() ID { return sha256.Sum256(a.Encode()) }
