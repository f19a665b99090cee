package convert

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"popri/internal/fault"
	"popri/internal/quote"
	"popri/model/gguf"
	"popri/model/safetensors"
)

// codec pairs the keys of an architecture's metadata with the fields of config.json. An import reads the keys and fills
// in the fields, an export does the reverse; an architecture names its pairs once. The first mistake is kept.
type codec struct {
	prefix string         // "llama."
	config map[string]any // an export finds every field stated
	accept []string
	err    error

	// Of an import.
	file *gguf.File
	read map[string]bool

	// Of an export.
	folder  *Folder
	entries []gguf.Entry
	made    []gguf.Stream // tensors that follow from the configuration
}

// Folder is a Hugging Face folder to export.
type Folder struct {
	Dir string
	// Config is config.json with every field stated, its context cut to the window, as lm.OpenStored gives it.
	Config map[string]any
	Stated map[string]any // config.json as it is
	// Tensors are the weights, by the names of transformers.
	Tensors map[string]safetensors.Tensor
}

// bad returns an error about a key of one of the folder's files.
func (f *Folder) bad(file, key, format string, args ...any) error {
	return fault.Userf("model export: %s: %s: %s", filepath.Join(f.Dir, file), key, quote.Sprintf(format, args...))
}

func (f *Folder) badTensor(name, format string, args ...any) error {
	return fault.Userf("model export: %s: tensor %s: %s", f.Dir, quote.Raw(name), quote.Sprintf(format, args...))
}

func (c *codec) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *codec) exports() bool { return c.folder != nil }

// bad returns an error about a key of the file or, in an export, about the field that it is paired with.
func (c *codec) bad(name, field, format string, args ...any) error {
	if c.exports() {
		return c.folder.bad(configFile, field, format, args...)
	}
	return c.file.Bad(c.key(name), format, args...)
}

// largest bounds every size of a model, as package lm does.
const largest = 1 << 24

// size pairs a positive number. In an import, one that is missing is the fallback; a fallback of 0 makes it required.
func (c *codec) size(name, field string, fallback int) int {
	return pair(c, name, field, fallback, c.sizeOf)
}

// number pairs a positive number. In an import, one that is missing or 0 is the fallback; a fallback of 0 makes it
// required.
func (c *codec) number(name, field string, fallback float64) {
	pair(c, name, field, fallback, c.numberOf)
}

func pair[T int | float64](c *codec, name, field string, fallback T, of func(name string, x T) T) T {
	if c.exports() {
		x, ok := c.config[field].(T)
		if fallback = x; !ok {
			fallback = 1
			c.note(c.bad(name, field, "is missing"))
		}
	}
	x := of(name, fallback)
	c.config[field] = x
	return x
}

// sizeOf writes n, or reads the key, whose fallback n is.
func (c *codec) sizeOf(name string, n int) int {
	if c.exports() {
		c.put(name, uint32(n))
		return n
	}
	key := c.key(name)
	x, ok, err := c.file.Int(key)
	switch {
	case err != nil:
		c.note(err)
	case !ok && n == 0:
		c.note(c.file.Bad(key, "is missing"))
	case !ok:
		return n
	case x < 1 || x > largest:
		c.note(c.file.Bad(key, "is %d, must be 1 to %d", x, largest))
	default:
		return int(x)
	}
	return 1
}

// numberOf writes x, or reads the key, whose fallback x is.
func (c *codec) numberOf(name string, x float64) float64 {
	if c.exports() {
		c.put(name, float32(x))
		return x
	}
	key := c.key(name)
	read, ok, err := c.file.Float(key)
	ok = ok && (read != 0 || x == 0)
	switch {
	case err != nil:
		c.note(err)
	case !ok && x == 0:
		c.note(c.file.Bad(key, "is missing"))
	case !ok:
		return x
	case !(read > 0) || math.IsInf(read, 0):
		c.note(c.file.Bad(key, "is %g, must be a positive number", read))
	default:
		return read
	}
	return 1
}

// flag pairs a field with what the file's tensors say.
func (c *codec) flag(field string, inFile bool) bool {
	if !c.exports() {
		c.config[field] = inFile
	}
	return c.config[field] == true
}

// fixed is a field that no key states, because llama.cpp computes nothing else: in an import it has the first value, an
// export refuses any but these.
func (c *codec) fixed(field string, values ...any) {
	if !c.exports() {
		c.config[field] = values[0]
	}
	c.must(field, values...)
}

// must has an export refuse any but these values of a field.
func (c *codec) must(field string, values ...any) {
	have := c.config[field]
	equal := func(want any) bool {
		a, number := have.(float64)
		b, also := want.(float64)
		return reflect.DeepEqual(have, want) || number && also && math.Abs(a-b) <= 1e-6*b
	}
	if c.exports() && !slices.ContainsFunc(values, equal) {
		c.note(c.bad("", field, "is %v, but llama.cpp computes %v alone in this architecture", have, values[0]))
	}
}

// text reads a text, "" where it is missing.
func (c *codec) text(name string) string {
	text, _, err := c.file.Text(c.key(name))
	c.note(err)
	return text
}

// has reports whether a key is there or, in an export, its field.
func (c *codec) has(name, field string) bool {
	if c.exports() {
		return c.config[field] != nil
	}
	return c.file.Has(c.key(name))
}

// put writes a key of the architecture.
func (c *codec) put(name string, value any) { c.state(c.prefix+name, value) }

// state writes a key.
func (c *codec) state(key string, value any) {
	c.entries = append(c.entries, gguf.Entry{Key: key, Value: value})
}

// key returns the whole name of a key, which counts as read from now on.
func (c *codec) key(name string) string {
	key := c.prefix + name
	c.read[key] = true
	return key
}

// ignore names keys that do not change what a model computes.
func (c *codec) ignore(names ...string) {
	for _, name := range names {
		if !c.exports() {
			c.key(name)
		}
	}
}

// leftover refuses keys of the architecture that nobody read, unless they are switched off or accepted.
func (c *codec) leftover() error {
	const causalKey = "attention.causal"
	if causal, ok, err := c.file.Bool(c.key(causalKey)); err != nil {
		return err
	} else if ok && !causal {
		return c.file.Bad(c.key(causalKey), "is false, which is not supported")
	}
	for _, key := range c.file.Keys() {
		if !strings.HasPrefix(key, c.prefix) || c.read[key] || c.file.Off(key) || slices.Contains(c.accept, key) {
			continue
		}
		return c.file.Bad(key, "is not supported (where it does not change what the model computes, accept it with "+
			"--accept-key %s)", key)
	}
	return nil
}
