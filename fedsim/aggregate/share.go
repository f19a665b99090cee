package aggregate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"popri/fedsim/noise"
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

// seedBytes is the length of the helper's share.
const seedBytes = 32

// Round is a client's vector in steps of the grid. A value that is not finite, or a vector longer than the bound, is an error: a
// client with a broken encoder sends nothing.
func Round(vector []float64, bound float64, grid noise.Grid) ([]int64, error) {
	out, squares := make([]int64, len(vector)), 0.0
	for i, v := range vector {
		squares += v * v
		out[i] = grid.Round(v)
	}
	if !(math.Sqrt(squares) <= bound*(1+1e-9)) { // as the grid's sensitivity allows
		return nil, fmt.Errorf("aggregate: a vector of norm %g, want at most %g", math.Sqrt(squares), bound)
	}
	return out, nil
}

// Split divides a vector into the leader's share and the helper's: Σ modulo 2^64 of the first and of the second's expansion is
// the vector, and each alone is uniform.
func Split(steps []int64) (leader, helper []byte) {
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

// shareBytes is the length of a share.
func shareBytes(r Role, values uint64) int {
	if r == Helper {
		return seedBytes
	}
	return 8 * int(values)
}

// Share is an aggregator's noised sum of its shares. It is uniform alone; both together are the noised sum of the vectors.
type Share struct {
	Version      uint64
	Role         string
	Announcement []byte
	Batch        []byte // SHA-256 of the reports' identifiers
	Reports      uint64
	Values       []uint64
}

func (s *Share) fields() []any {
	return []any{&s.Version, &s.Role, &s.Announcement, &s.Batch, &s.Reports, &s.Values}
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

// ErrOutOfRange marks a sum that bounded vectors cannot have: a client or an aggregator sent something else. Its noised shares
// were seen, so it is charged.
var ErrOutOfRange = errors.New("the sum is beyond what bounded vectors add up to")

// Merge adds up the shares of both aggregators: the sum over the reports, in steps of the announcement's grid, with both noises.
// Shares that do not belong together are an error; a sum that cannot be is [ErrOutOfRange].
func Merge(a *Announcement, leader, helper *Share) (steps []int64, reports int, err error) {
	id := a.ID()
	for role, s := range map[Role]*Share{Leader: leader, Helper: helper} {
		switch {
		case s.Version != Version || s.Role != string(role):
			return nil, 0, fmt.Errorf("aggregate: a share of version %d of the %q, want %d of the %q", s.Version, s.Role, Version, role)
		case string(s.Announcement) != string(id[:]):
			return nil, 0, fmt.Errorf("aggregate: the %s's share answers another announcement: %x, want %s", role, s.Announcement, id)
		case uint64(len(s.Values)) != a.Values:
			return nil, 0, fmt.Errorf("aggregate: the %s's share has %d values, want %d", role, len(s.Values), a.Values)
		case s.Reports < a.Least || s.Reports > a.Clients:
			return nil, 0, fmt.Errorf("aggregate: the %s's share is of %d reports, want %d to %d", role, s.Reports, a.Least, a.Clients)
		}
	}
	if leader.Reports != helper.Reports || string(leader.Batch) != string(helper.Batch) {
		return nil, 0, fmt.Errorf("aggregate: the aggregators summed different reports: %d with the hash %.6x, %d with %.6x",
			leader.Reports, leader.Batch, helper.Reports, helper.Batch)
	}
	grid, err := a.Grid()
	if err != nil {
		return nil, 0, err
	}
	// Noise of more than 16 standard deviations has a chance of 10^-56.
	limit := float64(leader.Reports)*(a.Bound/grid.Step+1) + 2*16*float64(grid.Units)
	steps = make([]int64, a.Values)
	for i := range steps {
		steps[i] = int64(leader.Values[i] + helper.Values[i])
		if !(math.Abs(float64(steps[i])) <= limit) {
			return nil, 0, fmt.Errorf("aggregate: round %d: %w: value %d is %.3g steps, want at most %.3g", a.Round, ErrOutOfRange, i,
				float64(steps[i]), limit)
		}
	}
	return steps, int(leader.Reports), nil
}
