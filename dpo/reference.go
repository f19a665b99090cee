package dpo

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"math"
	"runtime"
	"syscall"

	"popri/internal/atomicfile"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// referenceForm is part of every key: it changes when the content of a file of reference log-probabilities changes, or
// the way in which they are computed.
const referenceForm = "popri reference 1"

// Cached says where reference log-probabilities came from.
type Cached struct {
	Read  bool  // from the file
	Stale error // why an existing file is not used: it is damaged, or of other pairs, another model or another type
}

// ReferenceFrom is [Tuner.Reference] with a file that keeps the result. It uses the file only if its content is whole
// and its key is the expected one: a hash of everything that the result depends on (the model's configuration and
// weights, the type of its arithmetic, the tokens of the pairs and how they are grouped). Otherwise it computes the
// log-probabilities and replaces the file.
func (t *Tuner) ReferenceFrom(ctx context.Context, pairs []Pair, path string) (Cached, error) {
	key, err := t.referenceKey(pairs)
	if err != nil {
		return Cached{}, err
	}
	stale := readReference(path, key, pairs)
	if stale == nil {
		return Cached{Read: true}, nil
	}
	if errors.Is(stale, fs.ErrNotExist) {
		stale = nil
	}
	if err := t.Reference(ctx, pairs); err != nil {
		return Cached{}, err
	}
	values := make([]float64, 0, 2*len(pairs))
	for _, p := range pairs {
		values = append(values, p.Reference[:]...)
	}
	return Cached{Stale: stale},
		safetensors.Write(path, []safetensors.Tensor{
			safetensors.FromFloat64(logProbabilities, []int64{int64(len(pairs)), 2}, values)},
			map[string]string{"key": key, "sha256": hashValues(values)})
}

// CheckReference refuses a file that cannot be written, and one that is there and holds no reference log-probabilities,
// and so must not be replaced.
func CheckReference(path string) error {
	f, err := safetensors.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return atomicfile.Check(path) // it will be written
	case err != nil:
		return fmt.Errorf("dpo: %s is there and holds no reference log-probabilities: %w", path, err)
	}
	defer f.Close()
	if _, ok := f.Tensor(logProbabilities); !ok {
		return fmt.Errorf("dpo: %s is there and holds no reference log-probabilities, which it is to keep: name another file", path)
	}
	return nil
}

const logProbabilities = "log_probabilities"

// readReference fills pairs from a file, if the file has the key.
func readReference(path, key string, pairs []Pair) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if got := f.Metadata()["key"]; got != key {
		return fmt.Errorf("dpo: %s is of other pairs or another model: its key is %.16q, want %.16q", path, got, key)
	}
	stored, ok := f.Tensor(logProbabilities)
	if !ok || stored.DType != safetensors.F64 {
		return fmt.Errorf("dpo: %s holds no log-probabilities", path)
	}
	values, err := stored.Float64s()
	if err != nil {
		return fmt.Errorf("dpo: %s: %w", path, err)
	}
	if len(values) != 2*len(pairs) || hashValues(values) != f.Metadata()["sha256"] {
		return fmt.Errorf("dpo: %s is damaged: its %d values are not those that were written", path, len(values))
	}
	for i := range pairs {
		pairs[i].Reference, pairs[i].HasReference = [2]float64{values[2*i], values[2*i+1]}, true
	}
	return nil
}

func hashValues(values []float64) string {
	h := sha256.New()
	var b [8]byte
	for _, v := range values {
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Key hashes what the training on lists of pairs begins with: the model, the type of its arithmetic, how pairs are
// grouped, and the pairs' tokens.
func (t *Tuner) Key(lists ...[]Pair) (string, error) {
	h := sha256.New()
	for _, pairs := range lists {
		key, err := t.referenceKey(pairs)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, key)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// referenceKey hashes what the reference log-probabilities of pairs depend on, to the last bit.
func (t *Tuner) referenceKey(pairs []Pair) (string, error) {
	if t.WeightsHash == "" {
		var err error
		if t.WeightsHash, err = HashWeights(t.Model); err != nil {
			return "", err
		}
	}
	h := sha256.New()
	// The last two fields stand for settings that are gone.
	fmt.Fprintf(h, "%s\x00%s\x00%v\x00%s\x00%v\x00%d\x000\x00false\x00", referenceForm, t.WeightsHash,
		t.Model.Compute, runtime.GOARCH, tensor.Arithmetic(), t.MicroPairs)
	for _, p := range pairs {
		for _, ids := range [][]int32{p.Prompt, p.Chosen, p.Rejected} {
			// The length is written first, so that no two lists of pairs have the same bytes.
			b := binary.LittleEndian.AppendUint64(nil, uint64(len(ids)))
			for _, id := range ids {
				b = binary.LittleEndian.AppendUint32(b, uint32(id))
			}
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// HashWeights returns the SHA-256 of a model's configuration and weights.
func HashWeights(m *lm.Model) (string, error) {
	h := sha256.New()
	config, err := json.Marshal(m.Config)
	if err != nil {
		return "", fmt.Errorf("dpo: %w", err)
	}
	h.Write(config)
	err = tensor.Parallel(1, func(_ int, s *tensor.Scope) error {
		for _, name := range m.Names() {
			w := m.Param(name)
			fmt.Fprintf(h, "\x00%s\x00%v\x00%v\x00", name, w.DType(), w.Shape())
			hashFloats(h, s.Float32s(w))
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func hashFloats(h hash.Hash, values []float32) {
	b := make([]byte, 0, 1<<16)
	for _, v := range values {
		if b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v)); len(b) == cap(b) {
			h.Write(b)
			b = b[:0]
		}
	}
	h.Write(b)
}
