package convert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/model/gguf"
)

// ExportOptions say what to write.
type ExportOptions struct {
	// Out is the file to make. It must not exist.
	Out string
	// Type is the type of the projections, one of [GGUFTypes].
	Type string
	// Accept names settings of the tokenizer that are ignored although llama.cpp does not know them.
	Accept []string
	// Progress, where not nil, is called after each tensor.
	Progress func(done, total int)
}

// ExportSummary is what was exported. DType is the type of the token embedding in the file.
type ExportSummary struct {
	Summary
	Type    string `json:"type"`
	Bytes   int64  `json:"bytes"`
	Tensors int    `json:"tensors"`
}

// fileTypes are the values of general.file_type.
var fileTypes = map[gguf.Type]uint32{gguf.F32: 0, gguf.F16: 1, gguf.Q4_0: 2, gguf.Q8_0: 7, gguf.BF16: 32}

// GGUFTypes are the values of [ExportOptions.Type].
func GGUFTypes() []string {
	return numeric.Map(gguf.Written, func(t gguf.Type) string { return strings.ToLower(t.String()) })
}

// Export writes the model of a Hugging Face folder as a GGUF file, tensor by tensor. What llama.cpp would compute
// otherwise than the folder says, and a file that exists, are the user's mistakes. When ctx ends, nothing is left behind.
func Export(ctx context.Context, f *Folder, o ExportOptions) (*ExportSummary, error) {
	i := slices.Index(GGUFTypes(), o.Type)
	if i < 0 {
		return nil, fault.Userf("model export: the type is %q, available: %s", o.Type, strings.Join(GGUFTypes(), ", "))
	}
	if err := checkFile(o.Out); err != nil {
		return nil, err
	}
	s := &ExportSummary{Summary: Summary{Out: o.Out, Types: map[string]int{}}, Type: o.Type}
	c := &codec{folder: f, config: maps.Clone(f.Config), accept: o.Accept}
	weights, err := c.planExport(s, gguf.Written[i])
	if err != nil {
		return nil, err
	}
	streams := slices.Clone(c.made)
	done := 0
	for _, w := range weights {
		conv := converter{codec: c, weight: w, kind: w.source.Type.String(), read: w.read,
			append: func(out []byte, values []float32) []byte { return gguf.Append(out, w.source.Type, values) }}
		streams = append(streams, gguf.Stream{Tensor: w.source, Write: conv.write(ctx, &done, len(weights), o.Progress)})
		s.Parameters += w.source.NumElements()
	}
	s.Tensors = len(streams)
	for _, t := range streams {
		s.Types[t.Type.String()]++
	}
	err = os.MkdirAll(filepath.Dir(o.Out), 0o755)
	if err == nil {
		err = atomicfile.Check(o.Out) // which removes what a killed export left
	}
	if err == nil {
		err = gguf.Write(o.Out, c.entries, streams)
	}
	if err != nil {
		return nil, fmt.Errorf("model export: %w", err)
	}
	info, err := os.Stat(o.Out)
	if err != nil {
		return nil, fmt.Errorf("model export: %w", err)
	}
	s.Bytes = info.Size()
	return s, nil
}

// checkFile refuses a file that exists, and one that cannot be made.
func checkFile(out string) error {
	if out == "" {
		return fault.Userf("model export: no file is named to write to")
	}
	if _, err := os.Lstat(out); err == nil {
		return fault.Userf("model export: %s exists already: name another file", out)
	}
	if err := atomicfile.CheckFolder(filepath.Dir(out)); err != nil {
		return fault.Userf("model export: %w", err)
	}
	return nil
}

// planExport settles the metadata, and the weights with their types.
func (c *codec) planExport(s *ExportSummary, t gguf.Type) ([]weight, error) {
	s.Architecture, _ = c.config["model_type"].(string)
	s.Tied = c.config["tie_word_embeddings"] == true
	family, families := "", []string(nil)
	for name, a := range architectures {
		if families = append(families, a.models...); slices.Contains(a.models, s.Architecture) {
			family = name
		}
	}
	if family == "" {
		slices.Sort(families)
		return nil, c.folder.bad(configFile, "model_type", "%q cannot be exported (supported: "+strings.Join(families, ", ")+")",
			s.Architecture)
	}
	v, err := c.vocabulary()
	if err != nil {
		return nil, err
	}
	c.state("general.architecture", family)
	c.state("general.type", "model")
	c.state("general.file_type", fileTypes[t])
	c.state("general.quantization_version", uint32(2))
	if s.Name, err = c.general(v.strips); err != nil {
		return nil, err
	}
	c.prefix = family + "."
	weights := architectures[family].plan(c)
	if c.err != nil {
		return nil, c.err
	}
	known := map[string]bool{}
	for i := range weights {
		known[weights[i].name] = true
		weights[i].source.Type = c.typeOf(t, weights[i].source)
	}
	for _, name := range slices.Sorted(maps.Keys(c.folder.Tensors)) {
		if !known[name] {
			return nil, c.folder.badTensor(name, "does not belong to a model of this architecture")
		}
	}
	s.Vocabulary, _ = c.config["vocab_size"].(int)
	s.Context, _ = cmp.Or(c.config["max_position_embeddings"], c.config["n_positions"]).(int)
	s.DType = strings.ToLower(weights[0].source.Type.String())
	return weights, v.write(c, s.Vocabulary)
}

// typeOf is the type that llama.cpp's quantization gives a tensor in a file of type t: float32 to norms, vectors and
// positions, half precision where rows are no whole blocks. The output projection is not rounded to four bits; llama.cpp
// gives it Q6_K, or Q8_0 where that does not fit.
func (c *codec) typeOf(t gguf.Type, x gguf.Tensor) gguf.Type {
	row := x.Shape[len(x.Shape)-1]
	values, _ := t.Block()
	projects := x.Name == output || x.Name == embedding && c.config["tie_word_embeddings"] == true
	switch {
	case len(x.Shape) == 1 || x.Name == positions:
		return gguf.F32
	case row%int64(values) != 0:
		return gguf.F16
	case t == gguf.Q4_0 && projects:
		return gguf.Q8_0
	}
	return t
}

// read gives values of the folder's tensor.
func (w weight) read(dst []float32, first int64) error {
	part, size := w.from, int64(w.from.DType.Size())
	part.Shape = []int64{int64(len(dst))}
	part.Data = part.Data[first*size : (first+int64(len(dst)))*size]
	values, err := part.Float32s()
	copy(dst, values)
	return err
}

// uncut puts the context and the window as they are stated, where the context was cut to the window.
func (f *Folder) uncut(config map[string]any) {
	for _, field := range []string{"max_position_embeddings", "sliding_window"} {
		if n, ok := f.Stated[field].(float64); ok {
			config[field] = int(n)
		}
	}
}
