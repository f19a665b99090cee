package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/model/gguf"
	"popri/model/safetensors"
	"popri/model/tokenizer"
)

// Auto keeps every value as it is: tensors of float16 and bfloat16 stay in their type, all others become float32.
const Auto = "auto"

var dtypes = map[string]safetensors.DType{"float32": safetensors.F32, "float16": safetensors.F16,
	"bfloat16": safetensors.BF16}

// DTypes are the values of [Options].DType.
var DTypes = []string{Auto, "float32", "float16", "bfloat16"}

// Options say what to write.
type Options struct {
	// Out is the folder to make. It must not hold anything yet.
	Out string
	// DType is the type of the weights that are written: auto, float32, float16 or bfloat16; "" means auto. The last
	// two round; a weight past 65504 does not fit float16, which is an error.
	DType string
	// Accept names metadata keys that are ignored although they are not known.
	Accept []string
	// Progress, where not nil, is called after each tensor.
	Progress func(done, total int)
}

// Summary is what was imported.
type Summary struct {
	Out          string         `json:"out"`
	Name         string         `json:"name,omitempty"` // general.name
	Architecture string         `json:"architecture"`   // model_type of config.json
	Parameters   int64          `json:"parameters"`
	Vocabulary   int            `json:"vocabulary"` // ids of the tokenizer
	Context      int            `json:"context"`    // most tokens of a sequence
	DType        string         `json:"dtype"`      // of the token embedding, as config.json states it
	Types        map[string]int `json:"types"`      // number of tensors by the file's type
	Tied         bool           `json:"tied"`       // the output projection is the token embedding
}

// Import writes the model of a GGUF file into the folder o.Out. A file that is damaged or not supported, and a folder
// in use, are the user's mistakes (see internal/fault). When ctx ends, nothing is left behind.
func Import(ctx context.Context, path string, o Options) (*Summary, error) {
	if err := checkOut(o.Out); err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		err = fault.User(err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := plan(f, o)
	if err != nil {
		return nil, err
	}
	if err := m.write(ctx, o); err != nil {
		return nil, err
	}
	return &m.summary, nil
}

// checkOut refuses a folder in use, and one that cannot be made.
func checkOut(out string) error {
	if out == "" {
		return fault.Userf("model import: no folder is named to write to")
	}
	abs, err := filepath.Abs(out)
	if err == nil {
		err = atomicfile.CheckFolder(filepath.Dir(abs)) // in which the folder is made
	}
	if err != nil {
		return fault.Userf("model import: %w", err)
	}
	entries, err := os.ReadDir(out)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fault.Userf("model import: %w", err)
	case len(entries) > 0:
		return fault.Userf("model import: the folder %s holds %s already: name another folder", out, entries[0].Name())
	}
	return nil
}

// model is what is written.
type model struct {
	file       *gguf.File
	codec      *codec
	config     map[string]any
	generation map[string]any
	tokens     map[string]any // tokenizer_config.json
	tokenizer  *tokenizer.Tokenizer
	weights    []weight
	summary    Summary
}

// plan reads the header and settles everything but the values.
func plan(f *gguf.File, o Options) (*model, error) {
	if err := whole(f); err != nil {
		return nil, err
	}
	name, ok, err := f.Text("general.architecture")
	if err != nil {
		return nil, err
	}
	arch, known := architectures[name]
	if !ok || !known {
		return nil, f.Bad("general.architecture", "is %q, supported are %s", name,
			strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
	}
	c := &codec{file: f, prefix: name + ".", config: map[string]any{}, accept: o.Accept, read: map[string]bool{}}
	m := &model{file: f, codec: c, config: c.config, summary: Summary{Out: o.Out, Types: map[string]int{}}}
	if m.summary.Name, _, err = f.Text("general.name"); err != nil {
		return nil, err
	}
	if m.weights = arch.plan(c); c.err != nil {
		return nil, c.err
	}
	if err := errors.Join(c.leftover(), leftover(f, m.weights)); err != nil {
		return nil, err
	}
	if err := m.choose(o.DType); err != nil {
		return nil, err
	}
	if err := m.readTokenizer(); err != nil {
		return nil, err
	}
	m.summary.Architecture = m.config["model_type"].(string)
	m.summary.Tied = m.config["tie_word_embeddings"].(bool)
	return m, nil
}

// whole refuses files that are a part of a model, or something else than a model.
func whole(f *gguf.File) error {
	if n, ok, err := f.Int("split.count"); err != nil || ok && n > 1 {
		return cmp.Or(err, f.Bad("split.count", "is %d: the model is in several files, which must be merged first", n))
	}
	if kind, ok, err := f.Text("general.type"); err != nil || ok && kind != "model" {
		return cmp.Or(err, f.Bad("general.type", "is %q, must be \"model\"", kind))
	}
	quantized := slices.ContainsFunc(f.Tensors(), func(t gguf.Tensor) bool { return t.Type.Quantized() })
	if n, ok, err := f.Int("general.quantization_version"); err != nil || ok && quantized && n != 2 {
		return cmp.Or(err, f.Bad("general.quantization_version", "is %d, supported is 2", n))
	}
	return nil
}

// choose settles the types that are written, and counts.
func (m *model) choose(dtype string) error {
	d, ok := dtypes[dtype]
	if auto := dtype == "" || dtype == Auto; !ok && !auto {
		return fault.Userf("model import: the data type is %q, available: %s", dtype, strings.Join(DTypes, ", "))
	}
	for i := range m.weights {
		w := &m.weights[i]
		switch {
		case ok:
			w.dtype = d
		case w.source.Type == gguf.F16:
			w.dtype = safetensors.F16
		case w.source.Type == gguf.BF16:
			w.dtype = safetensors.BF16
		default:
			w.dtype = safetensors.F32
		}
		m.summary.Parameters += w.source.NumElements()
		m.summary.Types[w.source.Type.String()]++
	}
	for name, d := range dtypes {
		if d == m.weights[0].dtype { // every architecture's first one is the embedding
			m.summary.DType = name
		}
	}
	m.config["dtype"], m.config["torch_dtype"] = m.summary.DType, m.summary.DType
	return nil
}

// write makes the folder under a temporary name and renames it.
func (m *model) write(ctx context.Context, o Options) (err error) {
	fail := func(err error) error { return fmt.Errorf("model import: writing %s: %w", o.Out, err) }
	out, err := filepath.Abs(o.Out)
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fail(err)
	}
	made, remove, err := filelock.TempFolder(filepath.Dir(out), atomicfile.TempPrefix+filepath.Base(out)+"-")
	if err != nil {
		return fail(err)
	}
	defer remove() // of which nothing is left after the renaming
	if err := os.Chmod(made, 0o755); err != nil {
		return fail(err)
	}
	if err := m.writeWeights(ctx, filepath.Join(made, safetensors.ModelFile), o.Progress); err != nil {
		return fail(err)
	}
	if err := m.tokenizer.Save(filepath.Join(made, tokenizer.FileName)); err != nil {
		return fail(err)
	}
	for name, content := range map[string]map[string]any{configFile: m.config,
		generationFile: m.generation, tokensFile: m.tokens} {
		if err := atomicfile.WriteJSON(filepath.Join(made, name), content); err != nil {
			return fail(err)
		}
	}
	// An empty folder gives way, one that was filled meanwhile does not.
	if err := os.Remove(out); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	if err := os.Rename(made, out); err != nil {
		return fail(err)
	}
	return atomicfile.SyncDir(filepath.Dir(out))
}
