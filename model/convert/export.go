package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
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

// ExportSummary is what was exported.
type ExportSummary struct {
	Out          string         `json:"out"`
	Name         string         `json:"name"`         // general.name
	Architecture string         `json:"architecture"` // general.architecture
	Type         string         `json:"type"`
	Bytes        int64          `json:"bytes"`
	Tensors      int            `json:"tensors"`
	Types        map[string]int `json:"types"` // number of tensors by type
	Parameters   int64          `json:"parameters"`
	Vocabulary   int            `json:"vocabulary"` // rows of the token embedding
	Context      int            `json:"context"`    // most tokens of a sequence
}

// fileTypes are the values of general.file_type.
var fileTypes = map[gguf.Type]uint32{gguf.F32: 0, gguf.F16: 1, gguf.Q4_0: 2, gguf.Q8_0: 7, gguf.BF16: 32}

// GGUFTypes are the values of [ExportOptions.Type].
func GGUFTypes() (names []string) {
	for _, t := range gguf.Written {
		names = append(names, strings.ToLower(t.String()))
	}
	return names
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
	s := &ExportSummary{Out: o.Out, Type: o.Type, Types: map[string]int{}}
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
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
		return nil, fmt.Errorf("model export: %w", err)
	}
	if err := gguf.Write(o.Out, c.entries, streams); err != nil {
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
	family, _ := c.config["model_type"].(string)
	var families []string
	for name, a := range architectures {
		if families = append(families, a.models...); slices.Contains(a.models, family) {
			s.Architecture = name
		}
	}
	if s.Architecture == "" {
		slices.Sort(families)
		return nil, c.folder.bad(configFile, "model_type", "%q cannot be exported (supported: %s)", family,
			quote.Raw(strings.Join(families, ", ")))
	}
	said, err := c.folder.stated()
	if err != nil {
		return nil, err
	}
	v, err := c.vocabulary(said)
	if err != nil {
		return nil, err
	}
	c.state("general.architecture", s.Architecture)
	c.state("general.type", "model")
	c.state("general.file_type", fileTypes[t])
	c.state("general.quantization_version", uint32(2))
	if s.Name, err = c.general(said, v.strips); err != nil {
		return nil, err
	}
	c.prefix = s.Architecture + "."
	weights := architectures[s.Architecture].plan(c)
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
	s.Context = c.config[map[bool]string{true: "n_positions", false: "max_position_embeddings"}[family == "gpt2"]].(int)
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

// stated is what Config does not tell of config.json.
type stated struct {
	Name    string `json:"_name_or_path"`
	Context *int   `json:"max_position_embeddings"`
	Window  *int   `json:"sliding_window"`
	BOS     any    `json:"bos_token_id"` // null, a number or a list
	Pad     any    `json:"pad_token_id"`
}

func (f *Folder) stated() (s stated, err error) {
	path := filepath.Join(f.Dir, configFile)
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(exactjson.TrimBOM(b), &s)
	}
	if err != nil {
		return s, fault.Userf("model export: %s: %w", path, quote.JSON(err))
	}
	return s, nil
}

// uncut puts the context and the window as they are stated where the context was cut to the window.
func (f *Folder) uncut(config map[string]any) error {
	s, err := f.stated()
	if s.Context != nil {
		config["max_position_embeddings"] = *s.Context
	}
	if s.Window != nil {
		config["sliding_window"] = *s.Window
	}
	return err
}
