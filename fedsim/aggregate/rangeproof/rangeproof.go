package rangeproof

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"popri/internal/numeric"
)

// The two parties, by their numbers in the draft.
const (
	Leader = 0
	Helper = 1
)

const (
	shares       = 2
	elementBytes = fp128.Size
	seedBytes    = 32
	publicBytes  = shares * seedBytes
	// maxElements bounds values·bits: the leader's share has 16 bytes for each.
	maxElements = 1 << 24
	// maxBits bounds the bits of a value, so that sums of many fit a word.
	maxBits = 53
)

// Scheme is Prio3SumVec for vectors of one length and range. It is safe for concurrent use.
type Scheme struct {
	values, bits, chunk int
	context             []byte
	share, record       int // bytes of the leader's share and of a record
}

// New makes the scheme for vectors of the given length, each value from 1 − 2^(bits−1) to 2^(bits−1). Shares, proofs
// and checks of another context fail.
func New(values, bits int, context []byte) (*Scheme, error) {
	if values < 1 || bits < 1 || bits > maxBits || values > maxElements/bits {
		return nil, fmt.Errorf("rangeproof: %d values of %d bits, want 1 or more of 1 to %d and at most %d bits together",
			values, bits, maxBits, maxElements)
	}
	return newScheme(values, bits, chunk(values*bits), context)
}

func newScheme(values, bits, chunk int, context []byte) (*Scheme, error) {
	s := &Scheme{values: values, bits: bits, chunk: chunk, context: context}
	vec, err := s.vec()
	if err != nil {
		return nil, err
	}
	p := vec.Params()
	s.share = elementBytes*int(p.MeasurementLength()+p.ProofLength()) + seedBytes + publicBytes
	s.record = elementBytes*int(p.VerifierLength()) + 2*seedBytes
	return s, nil
}

// vec is circl's scheme, made for each use: it keeps the state of a hash, so that it cannot be used by two at once.
func (s *Scheme) vec() (*sumvec.SumVec, error) {
	vec, err := sumvec.New(shares, uint(s.values), uint(s.bits), uint(s.chunk), s.context)
	if err != nil {
		return nil, fmt.Errorf("rangeproof: %w", err)
	}
	return vec, nil
}

// chunk is the number of bits that one call of the proof's gadget checks, in the shortest proof of n bits. A proof has
// 2·chunk + 2p − 1 elements, with p the power of two above the number of calls, so all p − 1 calls are used.
func chunk(n int) int {
	best, length := n, math.MaxInt
	for p := 2; p <= 2*n; p *= 2 {
		c := (n + p - 2) / (p - 1)
		if l := 2*c + 2*p; l < length {
			best, length = c, l
		}
	}
	return best
}

// ShareBytes is the length of a party's share.
func (s *Scheme) ShareBytes(party int) int {
	if party == Helper {
		return 2*seedBytes + publicBytes
	}
	return s.share
}

// RecordBytes is the length of what a party says of a report to the other one.
func (s *Scheme) RecordBytes() int { return s.record }

// offset is what is added to values so that none is negative.
func (s *Scheme) offset() int64 { return 1<<(s.bits-1) - 1 }

// Split divides a vector into two shares with a proof. nonce names the report; a client uses it once. A value beyond
// the range is an error.
func (s *Scheme) Split(nonce [16]byte, vector []int64) (leader, helper []byte, err error) {
	if len(vector) != s.values {
		return nil, nil, fmt.Errorf("rangeproof: a vector of %d values, want %d", len(vector), s.values)
	}
	shifted := make([]uint64, len(vector))
	for i, v := range vector {
		if v < -s.offset() || v > s.offset()+1 {
			return nil, nil, fmt.Errorf("rangeproof: value %d is beyond the range of %d bits", i, s.bits)
		}
		shifted[i] = uint64(v + s.offset())
	}
	vec, err := s.vec()
	if err != nil {
		return nil, nil, err
	}
	params := vec.Params()
	random := make([]byte, params.RandSize())
	_, _ = rand.Read(random) // it never fails: it ends the program instead
	public, inputs, err := vec.Shard(shifted, (*sumvec.Nonce)(&nonce), random)
	if err != nil {
		return nil, nil, fmt.Errorf("rangeproof: %w", err)
	}
	out := [shares][]byte{}
	for i := range out {
		if out[i], err = inputs[i].MarshalBinary(); err != nil {
			return nil, nil, fmt.Errorf("rangeproof: %w", err)
		}
		out[i] = append(out[i], public...)
	}
	return out[Leader], out[Helper], nil
}

// Vector is a share of a vector or of a sum of vectors, in the field.
type Vector = fp128.Vec

// Check is a party's part of checking a share: the record goes to the other party, the vector is the share of the
// values, which counts if [Scheme.Holds] for the records of both. The key is a secret of both parties that no client
// knows. The same share gives the same record. A share that is damaged for everybody to see is an error; its record is
// [Scheme.Damaged].
func (s *Scheme) Check(key [32]byte, nonce [16]byte, party int, share []byte) (record []byte, own Vector, err error) {
	fail := func(err error) ([]byte, Vector, error) { return nil, nil, fmt.Errorf("rangeproof: %w", err) }
	if len(share) != s.ShareBytes(party) {
		return fail(fmt.Errorf("a share of %d bytes, want %d", len(share), s.ShareBytes(party)))
	}
	vec, err := s.vec()
	if err != nil {
		return nil, nil, err
	}
	params := vec.Params()
	cut := len(share) - publicBytes
	var input sumvec.InputShare
	if err := input.New(&params, uint(party)).UnmarshalBinary(share[:cut]); err != nil {
		return fail(err)
	}
	state, prep, err := vec.PrepInit((*sumvec.VerifyKey)(&key), (*sumvec.Nonce)(&nonce), uint8(party), share[cut:], input)
	if err != nil {
		return fail(err)
	}
	if record, err = prep.MarshalBinary(); err != nil {
		return fail(err)
	}
	// The state is the share of the values, and the seed of the randomness by which this party has checked.
	held, err := state.MarshalBinary()
	if err != nil {
		return fail(err)
	}
	own = make(Vector, s.values)
	if err := own.UnmarshalBinary(held[:elementBytes*s.values]); err != nil {
		return fail(err)
	}
	return append(record, held[elementBytes*s.values:]...), own, nil
}

// Damaged is the record of a share that cannot be checked. It never holds.
func (s *Scheme) Damaged() []byte { return make([]byte, s.RecordBytes()) }

// Holds decides by the records of both parties whether the report's values are in the range. Both come to the same
// decision: what one of them would find out alone, such as that the client told each of them another public part, is in
// the records.
func (s *Scheme) Holds(leader, helper []byte) bool {
	vec, err := s.vec()
	if err != nil {
		return false
	}
	params := vec.Params()
	prep := make([]sumvec.PrepShare, shares)
	var seeds [shares][]byte
	for i, record := range [][]byte{leader, helper} {
		if len(record) != s.RecordBytes() {
			return false
		}
		cut := len(record) - seedBytes
		seeds[i] = record[cut:]
		if prep[i].New(&params).UnmarshalBinary(record[:cut]) != nil {
			return false
		}
	}
	message, err := vec.PrepSharesToPrep(prep)
	if err != nil {
		return false
	}
	joint, err := message.MarshalBinary()
	if err != nil {
		return false
	}
	// PrepNext of each party compares its own seed with the message's.
	return subtle.ConstantTimeCompare(joint, seeds[Leader])&subtle.ConstantTimeCompare(joint, seeds[Helper]) == 1
}

// Zero is a vector of zeros.
func (s *Scheme) Zero() Vector { return make(Vector, s.values) }

// Add adds whole numbers to an element of the field; k may be negative.
func Add(element *fp128.Fp, k int64) {
	var e fp128.Fp
	_ = e.SetUint64(uint64(max(k, -k))) // it has no error for a word; -2^63 is its own size
	if k < 0 {
		element.SubAssign(&e)
	} else {
		element.AddAssign(&e)
	}
}

// Words are the elements of a vector, two words each, the low one first.
func Words(v Vector) ([]uint64, error) {
	b, err := v.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("rangeproof: %w", err)
	}
	return numeric.Tabulate(len(b)/8, func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }), nil
}

// FromWords is the inverse of [Words].
func FromWords(words []uint64) (Vector, error) {
	b := make([]byte, 0, 8*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	v := make(Vector, len(words)/2)
	if len(words)%2 != 0 {
		return nil, fmt.Errorf("rangeproof: %d words, want two for each value", len(words))
	}
	if err := v.UnmarshalBinary(b); err != nil {
		return nil, fmt.Errorf("rangeproof: %w", err)
	}
	return v, nil
}

// ErrOutOfRange marks sums that no vectors within the range and their noise have.
var ErrOutOfRange = errors.New("a value of the sum is beyond 2^62")

// Sum is the sum of the reports' vectors, from the sums of both parties' shares. Noise added to these is in it.
func (s *Scheme) Sum(leader, helper Vector, reports uint64) ([]int64, error) {
	const middle = 1 << 62
	high, shift := bits.Mul64(reports, uint64(s.offset()))
	if len(leader) != s.values || len(helper) != s.values || high != 0 || shift >= middle {
		return nil, fmt.Errorf("rangeproof: sums of %d and %d values and %d reports, want %d values", len(leader),
			len(helper), reports, s.values)
	}
	out := make([]int64, s.values)
	for i := range out {
		var e fp128.Fp
		e.Add(&leader[i], &helper[i])
		Add(&e, middle-int64(shift))
		word, err := e.GetUint64()
		if err != nil || word >= 2*middle {
			return nil, fmt.Errorf("rangeproof: value %d: %w", i, ErrOutOfRange)
		}
		out[i] = int64(word) - middle
	}
	return out, nil
}
