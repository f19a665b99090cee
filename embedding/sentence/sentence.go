// Package sentence reads the folder of a sentence encoder in the form of sentence-transformers: a BERT with its
// tokenizer, mean pooling and unit length, such as all-MiniLM-L6-v2. Other packages run the network.
package sentence

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/bom"
	"popri/internal/filehash"
	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/safetensors"
	"popri/tokenizer"
)

// Config has the relevant fields of a BERT's config.json.
type Config struct {
	Vocab    int     `json:"vocab_size"`
	Hidden   int     `json:"hidden_size"`
	Layers   int     `json:"num_hidden_layers"`
	Heads    int     `json:"num_attention_heads"`
	Inner    int     `json:"intermediate_size"`
	Context  int     `json:"max_position_embeddings"`
	Types    int     `json:"type_vocab_size"`
	NormEps  float64 `json:"layer_norm_eps"`
	Act      string  `json:"hidden_act"`
	Position string  `json:"position_embedding_type"`
	Type     string  `json:"model_type"`
}

// Folder is an opened encoder. Close releases the mapped weights.
type Folder struct {
	Dir       string
	Config    Config
	MaxTokens int    // longer texts are cut; the template's tokens count
	Hash      string // of configuration, tokenizer and weights, for cache keys

	tokenizer      *tokenizer.Tokenizer
	prefix, suffix []int32
	files          *safetensors.Model
	names          map[string]string // tensor name in BertModel to its name in the file
}

// Open reads a folder. A setting that the encoders do not support is refused by name.
func Open(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, names: map[string]string{}}
	if err := f.open(); err != nil {
		if f.files != nil {
			f.files.Close()
		}
		return nil, fmt.Errorf("embedding: %w", err)
	}
	return f, nil
}

func (f *Folder) open() error {
	if err := f.readModules(); err != nil {
		return err
	}
	if err := f.readConfig(); err != nil {
		return err
	}
	var err error
	if f.tokenizer, err = tokenizer.Load(f.Dir); err != nil {
		return err
	}
	if n := f.tokenizer.VocabSize(); n > f.Config.Vocab {
		return fmt.Errorf("%s: the tokenizer has ids up to %d, the model's vocabulary is %d: they do not belong "+
			"together", f.Dir, n-1, f.Config.Vocab)
	}
	f.prefix, f.suffix = f.tokenizer.Template()
	if around := len(f.prefix) + len(f.suffix); f.MaxTokens <= around {
		return fmt.Errorf("%s: max_seq_length %d leaves no room beside the %d tokens around a text", f.Dir,
			f.MaxTokens, around)
	}
	if f.files, err = safetensors.OpenModel(f.Dir); err != nil {
		return err
	}
	for _, name := range f.files.Names() {
		as := strings.TrimPrefix(name, "bert.")
		// Position numbers, and the classifying part: mean pooling uses neither.
		if as == "embeddings.position_ids" || strings.HasPrefix(as, "pooler.") || strings.HasPrefix(as, "cls.") {
			continue
		}
		f.names[as] = name
	}
	return f.hash()
}

// readJSON reads an optional file; a missing one leaves into unchanged.
func (f *Folder) readJSON(name string, decode func([]byte) error) (found bool, err error) {
	path := filepath.Join(f.Dir, name)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		if err = decode(bom.Trim(raw)); err == nil {
			return true, nil
		}
		err = fmt.Errorf("%s: %w", path, err)
	}
	return true, err
}

// readModules checks that the folder is a transformer, mean pooling and unit length, and nothing else.
func (f *Folder) readModules() error {
	var modules []struct{ Type, Path string }
	if _, err := f.readJSON("modules.json", func(raw []byte) error { return json.Unmarshal(raw, &modules) }); err != nil {
		return err
	}
	pooling := "1_Pooling"
	for i, m := range modules {
		kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
		switch {
		case kind == "Transformer" && i == 0 && m.Path == "":
		case kind == "Pooling":
			pooling = m.Path
		case kind == "Normalize":
		default:
			return quote.Errorf("%s: module %d, %s at %q, is not supported (supported: Transformer, Pooling, "+
				"Normalize)", filepath.Join(f.Dir, "modules.json"), i, m.Type, m.Path)
		}
	}
	if !filepath.IsLocal(pooling) {
		return quote.Errorf("%s: the pooling's path %q is outside the folder", filepath.Join(f.Dir, "modules.json"), pooling)
	}
	p := struct {
		Dim  int   `json:"word_embedding_dimension"`
		Mean *bool `json:"pooling_mode_mean_tokens"`
		Mode any   `json:"pooling_mode"`
	}{}
	_, err := f.readJSON(filepath.Join(pooling, "config.json"), func(raw []byte) error {
		if err := hfconfig.Decode(raw, &p, "include_prompt", "embedding_dimension"); err != nil {
			return err
		}
		if p.Mean != nil && !*p.Mean || p.Mode != nil && p.Mode != "mean" {
			return errors.New("pooling other than the mean of the tokens is not supported")
		}
		return nil
	})
	return err
}

func (f *Folder) readConfig() error {
	path := filepath.Join(f.Dir, "config.json")
	f.Config = Config{Vocab: 30522, Hidden: 768, Layers: 12, Heads: 12, Inner: 3072, Context: 512, Types: 2,
		NormEps: 1e-12, Act: "gelu", Position: "absolute"}
	c := &f.Config
	found, err := f.readJSON("config.json", func(raw []byte) error {
		// The type is checked first: the fields of another model would only confuse.
		var head struct {
			Type string `json:"model_type"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		if head.Type != "bert" {
			return quote.Errorf("model_type %q is not supported (supported: bert)", head.Type)
		}
		return hfconfig.Decode(raw, c, "tie_word_embeddings", "eos_token_id")
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is missing", path)
	}
	for _, v := range []struct {
		name  string
		value int
	}{{"vocab_size", c.Vocab}, {"hidden_size", c.Hidden}, {"num_hidden_layers", c.Layers},
		{"num_attention_heads", c.Heads}, {"intermediate_size", c.Inner},
		{"max_position_embeddings", c.Context}, {"type_vocab_size", c.Types}} {
		if v.value < 1 || v.value > 1<<24 {
			return fmt.Errorf("%s: %s is %d", path, v.name, v.value)
		}
	}
	switch {
	case c.Hidden%c.Heads != 0:
		return fmt.Errorf("%s: hidden_size %d is no multiple of the %d heads", path, c.Hidden, c.Heads)
	case c.Act != "gelu":
		return quote.Errorf("%s: hidden_act %q is not supported (supported: gelu)", path, c.Act)
	case c.Position != "absolute":
		return quote.Errorf("%s: position_embedding_type %q is not supported (supported: absolute)", path, c.Position)
	case !(c.NormEps > 0):
		return fmt.Errorf("%s: layer_norm_eps is %g", path, c.NormEps)
	}
	s := struct {
		Max   int  `json:"max_seq_length"`
		Lower bool `json:"do_lower_case"`
	}{Max: c.Context}
	if _, err := f.readJSON("sentence_bert_config.json",
		func(raw []byte) error { return json.Unmarshal(raw, &s) }); err != nil {
		return err
	}
	if s.Lower {
		return fmt.Errorf("%s: do_lower_case is not supported: the tokenizer says whether case counts",
			filepath.Join(f.Dir, "sentence_bert_config.json"))
	}
	if s.Max < 1 || s.Max > c.Context {
		return fmt.Errorf("%s: max_seq_length is %d, the model has %d positions",
			filepath.Join(f.Dir, "sentence_bert_config.json"), s.Max, c.Context)
	}
	f.MaxTokens = s.Max
	return nil
}

func (f *Folder) hash() error {
	sum := sha256.New()
	fmt.Fprintf(sum, "%+v %d\n", f.Config, f.MaxTokens)
	for _, path := range append([]string{filepath.Join(f.Dir, tokenizer.FileName)}, f.files.Files()...) {
		h, err := filehash.SHA256(path)
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, h)
	}
	f.Hash = hex.EncodeToString(sum.Sum(nil))[:16]
	return nil
}

// Close unmaps the weights.
func (f *Folder) Close() error { return f.files.Close() }

// Name identifies the encoder: "bert-6x384".
func (f *Folder) Name() string { return fmt.Sprintf("bert-%dx%d", f.Config.Layers, f.Config.Hidden) }

// IDs returns the ids of a text for the model, cut to MaxTokens.
func (f *Folder) IDs(text string) []int32 {
	ids := f.tokenizer.Encode(text)
	ids = ids[:min(len(ids), f.MaxTokens-len(f.prefix)-len(f.suffix))]
	return slices.Concat(f.prefix, ids, f.suffix)
}

// Tensor returns the float32 values of a tensor by its name in BertModel. It must have the given shape.
func (f *Folder) Tensor(name string, shape ...int) ([]float32, error) {
	in, ok := f.names[name]
	if !ok {
		return nil, fmt.Errorf("embedding: %s: tensor %s is missing", f.Dir, name)
	}
	t, _ := f.files.Tensor(in)
	want := make([]int64, len(shape))
	for i, n := range shape {
		want[i] = int64(n)
	}
	if !slices.Equal(t.Shape, want) {
		return nil, fmt.Errorf("embedding: %s: tensor %s has shape %v, config.json makes it %v", f.Dir, name, t.Shape, want)
	}
	if err := t.CheckFinite(); err != nil {
		return nil, fmt.Errorf("embedding: %s: %w", f.Dir, err)
	}
	delete(f.names, name)
	values, err := t.Float32s()
	if err != nil {
		return nil, fmt.Errorf("embedding: %s: %w", f.Dir, err)
	}
	return values, nil
}

// Weights are the tensors of a BERT. Matrices are [out, in], rows one after another.
type Weights struct {
	Word         []float32 // [vocabulary, hidden]
	Position     []float32 // [context, hidden], the embedding of token type 0 added
	NormW, NormB []float32 // of the embeddings
	Layers       []Layer
}

// Layer is one block.
type Layer struct {
	QKV, QKVBias         []float32 // queries, keys and values below one another: [3·hidden, hidden]
	Out, OutBias         []float32
	AttnNormW, AttnNormB []float32
	Up, UpBias           []float32 // [inner, hidden]
	Down, DownBias       []float32 // [hidden, inner]
	MLPNormW, MLPNormB   []float32
}

// Weights reads all tensors. A tensor that no part of the network uses is an error.
func (f *Folder) Weights() (*Weights, error) {
	c := f.Config
	h := c.Hidden
	var errs []error
	take := func(name string, shape ...int) []float32 {
		x, err := f.Tensor(name, shape...)
		errs = append(errs, err)
		return x
	}
	w := &Weights{
		Word:     take("embeddings.word_embeddings.weight", c.Vocab, h),
		Position: take("embeddings.position_embeddings.weight", c.Context, h),
		NormW:    take("embeddings.LayerNorm.weight", h),
		NormB:    take("embeddings.LayerNorm.bias", h),
	}
	if types := take("embeddings.token_type_embeddings.weight", c.Types, h); types != nil {
		for i := range w.Position {
			w.Position[i] += types[i%h]
		}
	}
	for i := range c.Layers {
		p := fmt.Sprintf("encoder.layer.%d.", i)
		var l Layer
		for _, part := range []string{"query", "key", "value"} {
			l.QKV = append(l.QKV, take(p+"attention.self."+part+".weight", h, h)...)
			l.QKVBias = append(l.QKVBias, take(p+"attention.self."+part+".bias", h)...)
		}
		l.Out, l.OutBias = take(p+"attention.output.dense.weight", h, h), take(p+"attention.output.dense.bias", h)
		l.AttnNormW, l.AttnNormB = take(p+"attention.output.LayerNorm.weight", h),
			take(p+"attention.output.LayerNorm.bias", h)
		l.Up, l.UpBias = take(p+"intermediate.dense.weight", c.Inner, h), take(p+"intermediate.dense.bias", c.Inner)
		l.Down, l.DownBias = take(p+"output.dense.weight", h, c.Inner), take(p+"output.dense.bias", h)
		l.MLPNormW, l.MLPNormB = take(p+"output.LayerNorm.weight", h), take(p+"output.LayerNorm.bias", h)
		w.Layers = append(w.Layers, l)
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	for name := range f.names {
		return nil, fmt.Errorf("embedding: %s: the checkpoint holds the tensor %s, which a BERT with this "+
			"config.json does not have", f.Dir, name)
	}
	return w, nil
}
