package pretrain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"

	"popri/datasets"
	"popri/model/lm"
	"popri/model/tensor"
)

// The roles of a model: they decide which public text it is trained on.
const (
	Generator = "generator" // writes; trained on all public text (W)
	Device    = "device"    // the small model's starting point (ε = 0); trained on the texts that prompts quote (Ω)
)

// Recipe is all that decides a model but its text and the program.
type Recipe struct {
	Role    string
	Vocab   int // most tokens of the vocabulary; a small text gives fewer
	Options Options
}

// A small text is trained on for at most mostEpochs epochs and for at least leastSteps steps. A word has about
// wordTokens tokens.
const (
	mostEpochs, leastSteps = 8, 10
	wordTokens             = 1.4
)

// Small is the recipe of the models that are trained where a run asks for model.path or downstream.model "trained". The
// sizes suit a few million words and minutes on two processors; the device model has the embedded one's.
func Small(public datasets.Public, role string, compute tensor.DType) Recipe {
	o := Options{Layers: 3, Width: 192, Heads: 4, Context: 256, Batch: 16, Steps: 1200, LearningRate: 1.5e-3,
		MinLearningRate: 1e-4, WeightDecay: 0.1, Seed: 1, Compute: compute}
	if role == Device {
		o.Layers, o.Width, o.Steps, o.LearningRate = 2, 128, 600, 3e-3
	}
	enough := mostEpochs * wordTokens * float64(datasets.Words(Texts(public, role))) / float64(o.Batch*o.Context)
	o.Steps = max(leastSteps, min(o.Steps, int(enough)))
	o.Warmup = min(100, o.Steps/10)
	return Recipe{Role: role, Vocab: 4096, Options: o}
}

// Shape is the size of the model that the recipe makes of enough text, and flops the work of its training: six
// operations a weight and token.
func (r Recipe) Shape() (shape lm.Shape, flops float64) {
	shape = lm.ShapeOf(r.Options.config(r.Vocab, 0))
	return shape, 6 * float64(shape.Parameters) * float64(r.Options.Batch*r.Options.Context*r.Options.Steps)
}

// Texts returns the part of public text that the role is trained on.
func Texts(p datasets.Public, role string) []datasets.Text {
	if role == Device {
		return p.Prompts
	}
	return p.Generator
}

// dtype is the type of activations as --dtype spells it.
func (r Recipe) dtype() string {
	if r.Options.Compute == tensor.BFloat16 {
		return "bfloat16"
	}
	return "float32"
}

// Command is the command that makes the model from the files of public text, or from the embedded default where there
// are none.
func (r Recipe) Command(vocab int, files ...string) string {
	o := r.Options
	var text strings.Builder
	text.WriteString("popri pretrain")
	for _, f := range files {
		fmt.Fprintf(&text, " --public %s", f)
	}
	fmt.Fprintf(&text, " --role %s --layers %d --width %d --heads %d --context %d --vocab %d --batch %d --steps %d"+
		" --learning-rate %g --min-learning-rate %g --warmup %d --weight-decay %g --seed %d --dtype %s",
		r.Role, o.Layers, o.Width, o.Heads, o.Context, vocab, o.Batch, o.Steps, o.LearningRate, o.MinLearningRate,
		o.Warmup, o.WeightDecay, o.Seed, r.dtype())
	return text.String()
}

// Provenance is what is known of the model before its training.
func (r Recipe) Provenance(vocab int, public datasets.Public, commit, goVersion string, files ...string) Provenance {
	return Provenance{Command: r.Command(vocab, files...), Commit: commit, Corpus: public.Name, CorpusHash: public.Hash(),
		GoVersion: goVersion, CPU: fmt.Sprintf("%s/%s %s", runtime.GOOS, runtime.GOARCH, r.dtype())}
}

// recipeVersion changes where the same recipe and text give another model, so that the cache forgets the old one.
const recipeVersion = 1

// key names the model of the recipe and of public text with the given hash.
func (r Recipe) key(corpusHash string) string {
	o := r.Options
	o.Save, o.SaveEvery = nil, 0
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %d %+v %s", recipeVersion, r.Role, r.Vocab, o, corpusHash)
	return r.Role + "-" + hex.EncodeToString(h.Sum(nil))[:16]
}
