package convert

import (
	"math"
	"slices"
	"strings"

	"popri/model/gguf"
)

// reader reads an architecture's metadata keys, and remembers which ones and the first mistake.
type reader struct {
	file   *gguf.File
	prefix string // "llama."
	accept []string
	read   map[string]bool
	err    error
}

func (r *reader) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

// largest bounds every size of a model, as package lm does.
const largest = 1 << 24

// size reads a positive number. Missing, it is the fallback; a fallback of 0 makes it required.
func (r *reader) size(name string, fallback int) int {
	key := r.key(name)
	n, ok, err := r.file.Int(key)
	switch {
	case err != nil:
		r.note(err)
	case !ok && fallback == 0:
		r.note(r.file.Bad(key, "is missing"))
	case !ok:
		return fallback
	case n < 1 || n > largest:
		r.note(r.file.Bad(key, "is %d, must be 1 to %d", n, largest))
	default:
		return int(n)
	}
	return 1
}

// number reads a positive number. Missing or 0, it is the fallback; a fallback of 0 makes it required.
func (r *reader) number(name string, fallback float64) float64 {
	key := r.key(name)
	x, ok, err := r.file.Float(key)
	ok = ok && (x != 0 || fallback == 0)
	switch {
	case err != nil:
		r.note(err)
	case !ok && fallback == 0:
		r.note(r.file.Bad(key, "is missing"))
	case !ok:
		return fallback
	case !(x > 0) || math.IsInf(x, 0):
		r.note(r.file.Bad(key, "is %g, must be a positive number", x))
	default:
		return x
	}
	return 1
}

// text reads a text, "" where it is missing.
func (r *reader) text(name string) string {
	text, _, err := r.file.Text(r.key(name))
	r.note(err)
	return text
}

// has reports whether a key is there.
func (r *reader) has(name string) bool { return r.file.Has(r.key(name)) }

// key returns the whole name of a key, which counts as read from now on.
func (r *reader) key(name string) string {
	key := r.prefix + name
	r.read[key] = true
	return key
}

// ignore names keys that do not change what a model computes.
func (r *reader) ignore(names ...string) {
	for _, name := range names {
		r.key(name)
	}
}

// leftover refuses keys of the architecture that nobody read, unless they are switched off or accepted.
func (r *reader) leftover() error {
	for _, key := range r.file.Keys() {
		if !strings.HasPrefix(key, r.prefix) || r.read[key] || r.file.Off(key) || slices.Contains(r.accept, key) {
			continue
		}
		return r.file.Bad(key, "is not supported (where it does not change what the model computes, accept it with "+
			"--accept-key %s)", key)
	}
	return nil
}
