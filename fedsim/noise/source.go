package noise

import (
	crand "crypto/rand"
	"encoding/binary"
	"strconv"

	"popri/internal/rng"
)

// Source gives uniform words. A *math/rand/v2.Rand is one, for noise that is to be repeated and so protects nobody.
type Source interface {
	Uint64() uint64
}

// Secure returns the operating system's cryptographic generator, read in blocks. It is not safe for concurrent use.
func Secure() Source { return &secure{next: blockSize} }

// Party is the source of the noise of one of two aggregators, by its role: [Secure] or, insecurely, a seed.
func Party(seed *uint64, role string, round int) Source {
	if seed != nil {
		return rng.New(*seed, "noise", role, strconv.Itoa(round))
	}
	return Secure()
}

const blockSize = 4096

type secure struct {
	block [blockSize]byte
	next  int
}

func (s *secure) Uint64() uint64 {
	if s.next == blockSize {
		_, _ = crand.Read(s.block[:]) // it never fails: it ends the program instead
		s.next = 0
	}
	at := s.block[s.next : s.next+8]
	v := binary.LittleEndian.Uint64(at)
	clear(at) // what was drawn is not to be found in memory
	s.next += 8
	return v
}

// Below returns a uniform number from 0 to n−1, n above 0, without bias.
func Below(s Source, n uint64) uint64 {
	for {
		if v, ok := below(s.Uint64(), n); ok {
			return v
		}
	}
}

// Chance returns true with probability p, exactly for p of 0, 1 and multiples of 2^-64 between; others are rounded down
// to one, by less than 2^-64.
func Chance(s Source, p float64) bool {
	switch {
	case !(p > 0):
		return false
	case p >= 1:
		return true
	}
	const two32 = 1 << 32
	high := uint64(p * two32)
	low := uint64((p*two32 - float64(high)) * two32)
	return s.Uint64() < high<<32|low
}
