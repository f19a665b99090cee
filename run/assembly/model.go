package assembly

import (
	"errors"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/internal/fault"
	"popri/internal/hub"
	"popri/internal/modelcache"
	"popri/methods"
	"popri/model/embedding"
	"popri/model/embedding/torch"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/model/tokenizer"
)

// ModelDir is [modelcache.Dir].
func ModelDir(path, name string) (string, error) { return modelcache.Dir(path, name) }

// GeneratorDir is [ModelDir] of a model that must write text.
func GeneratorDir(path string) (string, error) {
	dir, err := ModelDir(path, shipped.Generator)
	if err != nil {
		return "", err
	}
	return dir, fault.User(lm.CheckGenerator(dir))
}

// EncoderDir resolves the path or the name of a sentence encoder, as [ModelDir] does a language model's.
func EncoderDir(path string) (string, error) {
	dir, err := modelcache.Folder(path, hub.Encoder)
	return dir, fault.User(err)
}

// SetCompute sets the threads and the device of the configuration.
func SetCompute(c configs.Config) error {
	tensor.SetThreads(c.Model.Threads)
	return SetDevice(c)
}

// CheckSampleWeights returns an error where this machine lacks the products that generate.weights asks for.
func CheckSampleWeights(c configs.Config) error {
	if c.Generate.Weights == "int8" && !(tensor.CanPack8() && ComputeType(c.Model.DType) == tensor.BFloat16) {
		return fault.Userf("generate.weights: int8 needs model.dtype bfloat16, which auto is not on each CPU, and a CPU with " +
			"AVX-512 VNNI and BF16 and without AMX, whose products in bfloat16 are faster")
	}
	return nil
}

// Ready checks a configuration, and makes new tensors on its device.
func Ready(c configs.Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return SetDevice(c)
}

// SetDevice makes new tensors on the device that model.device names.
func SetDevice(c configs.Config) error {
	if err := tensor.SetDevice(c.Model.Device); err != nil {
		return fault.Userf("model.device: %w", err)
	}
	return nil
}

// ComputeType is the type that model.dtype names: for auto, bfloat16 where the device multiplies it fast.
func ComputeType(name string) tensor.DType {
	if name == "bfloat16" || name == "auto" && tensor.FastBFloat16() {
		return tensor.BFloat16
	}
	return tensor.Float32
}

// SlowType says that the device is slow in the type that model.dtype names; "" if it is not.
func SlowType(c configs.Model) string {
	if ComputeType(c.DType) != tensor.BFloat16 || tensor.FastBFloat16() {
		return ""
	}
	return "model.dtype is bfloat16, in which this device is slower than in float32 (without AVX-512 BF16 and AMX, many times); " +
		"model.dtype=auto takes float32 here"
}

// modelOptions are the types of the generator's weights and of its arithmetic.
func modelOptions(c configs.Model) lm.Options {
	o := lm.Options{Weights: tensor.Float32, Compute: ComputeType(c.DType)}
	if c.Weights == "compute" {
		o.Weights = o.Compute
	}
	return o
}

// Generator is the model that writes the samples, with its tokenizer.
type Generator struct {
	Model     *lm.Model // nil if its weights were not needed
	Tokenizer *tokenizer.Tokenizer
	Dir       string // absolute
	Context   int    // the most tokens of a row
}

// OpenGenerator reads what makes prompts for the model that model.path names: all but its weights.
func OpenGenerator(c configs.Config) (g Generator, err error) {
	dir, err := GeneratorDir(c.Model.Path)
	if err != nil {
		return g, err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return g, fault.User(errors.Join(err, lm.Check(dir)))
	}
	shape, err := lm.Inspect(dir)
	if err != nil {
		return g, fault.User(err)
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute // adapters name it, wherever they are opened
	}
	return Generator{nil, tok, dir, shape.Config.Context}, nil
}

// LoadGenerator reads the model that model.path names. The caller frees it.
func LoadGenerator(c configs.Config) (Generator, error) {
	g, err := OpenGenerator(c)
	if err != nil {
		return Generator{}, err
	}
	m, err := lm.Load(g.Dir, modelOptions(c.Model))
	if err != nil {
		return Generator{}, fault.User(err)
	}
	if err := m.CheckVocabulary(g.Tokenizer.VocabSize()); err != nil {
		m.Free()
		return Generator{}, fault.Userf("%s: %w", g.Dir, err)
	}
	g.Model = m
	return g, nil
}

// FreeEncoder releases the encoder's memory that the garbage collector does not manage.
func FreeEncoder(e embedding.Encoder) {
	if e, ok := embedding.Sentence(e).(*torch.Encoder); ok {
		e.Free()
	}
}

// NewEncoder opens the encoder of the configuration, or fits it to the public text.
func NewEncoder(c configs.Config, public datasets.Public) (embedding.Encoder, error) {
	e, err := newSentence(c, public)
	if err != nil {
		return nil, err
	}
	return joined(c, e), nil
}

// joined puts form and words next to embeddings, where the configuration asks for them.
func joined(c configs.Config, e embedding.Encoder) embedding.Encoder {
	if methods.Of(c).Needs(c).Meaning {
		return e
	}
	return embedding.Join(e, c.Scoring.Form, c.Scoring.Words)
}

// newSentence opens or fits the encoder of sentences.
func newSentence(c configs.Config, public datasets.Public) (embedding.Encoder, error) {
	if !slices.Contains(configs.Encoders, c.Scoring.Encoder) {
		dir, err := EncoderDir(c.Scoring.Encoder)
		if err != nil {
			return nil, fault.Userf("scoring.encoder: %w", err)
		}
		e, err := torch.Open(dir, ComputeType(c.Model.DType))
		if err != nil {
			return nil, fault.Userf("scoring.encoder: %w", err)
		}
		return e, nil
	}
	texts := public.Generator
	if len(texts) == 0 {
		texts = public.Prompts
	}
	if c.Scoring.Encoder == "latent" {
		return embedding.FitLatent(datasets.Strings(texts), embedding.LatentConfig{Dim: c.Scoring.Dim})
	}
	return embedding.FitHashing(datasets.Strings(texts), embedding.HashingConfig{Dim: c.Scoring.Dim})
}
