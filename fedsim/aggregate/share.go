package aggregate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"popri/fedsim/aggregate/rangeproof"
	"popri/internal/numeric"
)

// Role is an aggregator's part.
type Role string

// The two aggregators. The leader gets masked vectors, the helper the seeds of the masks.
const (
	Leader Role = "leader"
	Helper Role = "helper"
)

// Roles are both.
var Roles = []Role{Leader, Helper}

// Peer is the other aggregator.
func (r Role) Peer() Role {
	if r == Leader {
		return Helper
	}
	return Leader
}

// party is the number of an aggregator in a proof.
func (r Role) party() int {
	if r == Helper {
		return rangeproof.Helper
	}
	return rangeproof.Leader
}

// seedBytes is the length of the helper's share.
const seedBytes = 32

// Split divides a vector of a client into the leader's share and the helper's, with the announced proof. Each alone is
// uniform.
func (a *Announcement) Split(client ed25519.PublicKey, steps []int64) (leader, helper []byte, err error) {
	if a.Proof == NoProof {
		leader, helper = split(steps)
		return leader, helper, nil
	}
	scheme, err := a.scheme()
	if err != nil {
		return nil, nil, err
	}
	return scheme.Split(reportID(a.ID(), client), steps)
}

// split divides a vector without a proof: Σ modulo 2^64 of the leader's share and of the helper's expansion is the
// vector.
func split(steps []int64) (leader, helper []byte) {
	helper = make([]byte, seedBytes)
	_, _ = rand.Read(helper) // it never fails: it ends the program instead
	leader = make([]byte, 8*len(steps))
	if err := expand(helper, leader); err != nil {
		panic(fmt.Sprintf("aggregate: %v", err)) // a bug: the seed has a key's length
	}
	for i, k := range steps {
		at := leader[8*i:]
		binary.LittleEndian.PutUint64(at, uint64(k)-binary.LittleEndian.Uint64(at))
	}
	return leader, helper
}

// expand writes the mask of a seed over out: the key stream of AES-256 in counter mode. A seed is used once.
func expand(seed, out []byte) error {
	block, err := aes.NewCipher(seed)
	if err != nil {
		return err
	}
	clear(out)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(out, out)
	return nil
}

// add adds the share of an aggregator to a sum modulo 2^64. buffer has 8 bytes for each value of the sum.
func (r Role) add(sum []uint64, share, buffer []byte) error {
	if r == Helper {
		if err := expand(share, buffer); err != nil {
			return err
		}
		share = buffer
	}
	for i := range sum {
		sum[i] += binary.LittleEndian.Uint64(share[8*i:])
	}
	return nil
}

// Share is an aggregator's noised sum of its shares. It is uniform alone; both together are the noised sum of the
// vectors.
type Share struct {
	Version      uint64
	Role         string
	Announcement []byte
	Batch        []byte // SHA-256 of the reports' identifiers
	Reports      uint64
	Values       []uint64 // with a range proof, two for each value: an element of the field, the low word first
	Refused      uint64   // reports whose proof did not hold
	// Invalid are the uploads since the share before, or since the aggregator was started, that were no valid report
	// ([Aggregator.CountRefusal]). Unused is 0.
	Unused, Invalid uint64
}

func (s *Share) fields() []any {
	return []any{&s.Version, &s.Role, &s.Announcement, &s.Batch, &s.Reports, &s.Values, &s.Refused, &s.Unused, &s.Invalid}
}

// Encode is the message.
func (s *Share) Encode() []byte { return encode(s) }

// ParseShare reads a share.
func ParseShare(b []byte) (*Share, error) {
	s := &Share{}
	if err := decode(b, s); err != nil {
		return nil, fmt.Errorf("aggregate: a noised share: %w", err)
	}
	return s, nil
}

// ErrOutOfRange marks a sum that bounded vectors cannot have: a client or an aggregator sent something else. Its noised
// shares were seen, so it is charged.
var ErrOutOfRange = errors.New("the sum is beyond what bounded vectors add up to")

// Merge adds up the shares of both aggregators: the sum over the reports, in steps of the announcement's grid, with
// both noises. Shares that do not belong together are an error; a sum that cannot be is [ErrOutOfRange].
func Merge(a *Announcement, leader, helper *Share) (steps []int64, reports int, err error) {
	id := a.ID()
	for role, s := range map[Role]*Share{Leader: leader, Helper: helper} {
		switch {
		case s.Version != Version || s.Role != string(role):
			return nil, 0, fmt.Errorf("aggregate: a share of version %d of the %q, want %d of the %q", s.Version,
				s.Role, Version, role)
		case string(s.Announcement) != string(id[:]):
			return nil, 0, fmt.Errorf("aggregate: the %s's share answers another announcement: %x, want %s", role,
				s.Announcement, id)
		case len(s.Values) != a.words():
			return nil, 0, fmt.Errorf("aggregate: the %s's share has %d words, want %d", role, len(s.Values), a.words())
		case s.Reports < a.Least || s.Reports > a.Clients:
			return nil, 0, fmt.Errorf("aggregate: the %s's share is of %d reports, want %d to %d", role, s.Reports,
				a.Least, a.Clients)
		}
	}
	if leader.Reports != helper.Reports || string(leader.Batch) != string(helper.Batch) {
		return nil, 0, fmt.Errorf("aggregate: the aggregators summed different reports: %d with the hash %.6x, %d "+
			"with %.6x", leader.Reports, leader.Batch, helper.Reports, helper.Batch)
	}
	grid, err := a.Grid()
	if err != nil {
		return nil, 0, err
	}
	// Noise of more than 16 standard deviations has a probability of 10^-56.
	limit := float64(leader.Reports)*(a.Bound/grid.Step+1) + 2*16*float64(grid.Units)
	if steps, err = a.addUp(leader, helper); err != nil {
		return nil, 0, fmt.Errorf("aggregate: round %d: %w", a.Round, err)
	}
	for i := range steps {
		if !(math.Abs(float64(steps[i])) <= limit) {
			return nil, 0, fmt.Errorf("aggregate: round %d: %w: value %d is %.3g steps, want at most %.3g", a.Round,
				ErrOutOfRange, i, float64(steps[i]), limit)
		}
	}
	return steps, int(leader.Reports), nil
}

// words is the number of words of a noised share.
func (a *Announcement) words() int {
	if a.Proof == RangeProof {
		return 2 * int(a.Values)
	}
	return int(a.Values)
}

// addUp adds up two shares that belong together.
func (a *Announcement) addUp(leader, helper *Share) ([]int64, error) {
	if a.Proof == NoProof {
		add := func(i int) int64 { return int64(leader.Values[i] + helper.Values[i]) }
		return numeric.Tabulate(int(a.Values), add), nil
	}
	scheme, err := a.scheme()
	if err != nil {
		return nil, err
	}
	var sums [2]rangeproof.Vector
	for i, s := range []*Share{leader, helper} {
		if sums[i], err = rangeproof.FromWords(s.Values); err != nil {
			return nil, err
		}
	}
	steps, err := scheme.Sum(sums[0], sums[1], leader.Reports)
	if errors.Is(err, rangeproof.ErrOutOfRange) {
		err = fmt.Errorf("%w: %w", ErrOutOfRange, err)
	}
	return steps, err
}
