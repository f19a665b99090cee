// Package rng derives independent, reproducible streams of random numbers from one run seed.
//
// Every place that needs randomness names itself by a path ("round", "3", "generate"), so that adding or reordering
// draws in one place never shifts the draws of another. The streams are for simulation and training only: privacy noise
// comes from the system's entropy (see fedsim).
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strings"
)

// New returns a generator for the stream that seed and path name: ChaCha8 keyed by SHA-256 of the seed and the path,
// whose parts are joined by '/'. Equal arguments give equal streams on every platform. It is not safe for use by
// several goroutines at once; give each its own path.
func New(seed uint64, path ...string) *rand.Rand { return rand.New(rand.NewChaCha8(key(seed, path))) }

// Seed returns a 64-bit seed for the stream that seed and path name, for libraries that accept no generator.
func Seed(seed uint64, path ...string) uint64 {
	k := key(seed, append(path[:len(path):len(path)], "seed"))
	return binary.LittleEndian.Uint64(k[:])
}

func key(seed uint64, path []string) [32]byte {
	b := make([]byte, 8, 64)
	binary.LittleEndian.PutUint64(b, seed)
	return sha256.Sum256(append(b, strings.Join(path, "/")...))
}
