package benchmark

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/dpo"
	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/memory"
	"popri/internal/numeric"
	"popri/internal/parallel"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/embedding"
	"popri/model/embedding/torch"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/scoring"
	"popri/scoring/query"
	"popri/trainer"
)

// shapesJSON has the config.json of published models, without what says nothing of their arithmetic.
//
//go:embed shapes.json
var shapesJSON []byte

// shapes are the configurations by the models' names.
func shapes() (all map[string]json.RawMessage) {
	if err := json.Unmarshal(shapesJSON, &all); err != nil {
		panic(err)
	}
	return all
}

// Shapes are the names of models whose shapes are known.
func Shapes() []string { return slices.Sorted(maps.Keys(shapes())) }

// shapeOf is the configuration of a model that is known by name, or whose folder has a config.json.
func shapeOf(name string) (lm.Config, error) {
	raw, ok := shapes()[name]
	if !ok {
		var err error
		if raw, err = fault.ReadFile(filepath.Join(name, "config.json")); err != nil {
			return lm.Config{}, fault.Userf("--shape is %q, want a folder with a config.json, or %s", name,
				strings.Join(Shapes(), ", "))
		}
	}
	c, err := lm.ParseConfig(exactjson.TrimBOM(raw))
	return c, fault.User(err)
}

// RoundOptions are the size of a round. [PaperRound] has the paper's.
type RoundOptions struct {
	Shape     string // of the model, see [Shapes], or a folder with its config.json
	Layers    int    // as many of its blocks; 0 for all
	K, J      int    // prompts, and samples of each
	Prompt    int    // tokens of a prompt
	New       int    // tokens of each sample, neither more nor fewer
	Clients   int
	Rejected  int // rank of the rejected sample
	Rank      int // of the adapters, on all projections
	Batch     int // pairs of an update
	Micro     int // pairs of one forward pass; 0 takes the default, as runs do
	Recompute bool
	Encoder   string       // folder of a sentence encoder; "" makes vectors up
	DType     tensor.DType // of weights and products
	Seed      uint64
	Profile   bool // say where the time goes in each stage
	// Done, where not nil, is told of each stage as it ends.
	Done func(Stage)
}

// PaperRound is the size of a round in the paper (POPri, section 5 and appendix B): LLaMA-3-8B, 1800 prompts of 3 texts,
// 10 samples of 64 tokens each, adapters of rank 4, and the 133 000 clients of its congressional speeches. The prompts'
// 256 tokens are three texts of 64 and the words between them.
func PaperRound() RoundOptions {
	return RoundOptions{Shape: "llama-3-8b", K: 1800, J: 10, Prompt: 256, New: 64, Clients: 133000, Rejected: 5, Rank: 4,
		Batch: 24, Seed: 1}
}

// Stage is a part of a round.
type Stage struct {
	Name    string  `json:"stage"`
	Seconds float64 `json:"seconds"`
	Flops   float64 `json:"flops,omitempty"` // floating-point operations of the matrix products
	// Utilisation is the rate of these operations over the rate of large matrix products here.
	Utilisation float64 `json:"utilisation,omitempty"`
	Peak        int64   `json:"peak_bytes"` // of the GPU, looked at twenty times a second; else of the process
	// Profile is where the time went, if asked for.
	Profile *Profile `json:"profile,omitempty"`
}

// Round is the measurement of a whole round.
type Round struct {
	Shape      string  `json:"shape"`
	Layers     int     `json:"layers"`
	Parameters int64   `json:"parameters"`
	Device     string  `json:"device"`
	DType      string  `json:"dtype"`
	Rate       float64 `json:"product_rate"` // of large matrix products, operations a second
	Stages     []Stage `json:"stages"`
	Pairs      int     `json:"pairs"`
	Seconds    float64 `json:"seconds"`           // of all stages but the making of weights
	Predicted  float64 `json:"predicted_seconds"` // what --dry-run predicts of the matrix products: half of the rate
	// PredictedPeak is what popri doctor --model predicts of the model's memory, of the stage that needs most.
	PredictedPeak int64     `json:"predicted_peak_bytes"`
	Config        lm.Config `json:"-"`
}

// roundBench is a round under way.
type roundBench struct {
	RoundOptions
	result  *Round
	random  *rand.Rand
	model   *lm.Model
	writer  *lm.Model    // model with the adapters merged
	restore func() error // ends the use of writer
	adapter *lora.Adapter
	encoder *torch.Encoder
	tuner   *dpo.Tuner

	prompts [][]int32
	samples [][]lm.Sample
	vectors embedding.Matrix
	scores  []float64
	pairs   []dpo.Pair
}

// MeasureRound times a round of POPri from prompts to saved adapters by the code of a run, with random weights, prompts
// and clients: adapters are merged, samples drawn, embedded and scored, pairs ranked, and the adapters updated on all
// pairs once and written.
func MeasureRound(ctx context.Context, o RoundOptions) (*Round, error) {
	if min(o.K, o.J-1, o.Prompt, o.New, o.Clients, o.Rank, o.Batch) < 1 || o.Layers < 0 || o.Micro < 0 ||
		o.Rejected < 2 || o.Rejected > o.J {
		return nil, fault.Userf("a round of %d prompts of %d tokens with %d samples of %d tokens, %d clients, adapters of "+
			"rank %d, updates of %d pairs and the rejected rank %d makes no sense", o.K, o.Prompt, o.J, o.New, o.Clients,
			o.Rank, o.Batch, o.Rejected)
	}
	config, err := shapeOf(o.Shape)
	if err != nil {
		return nil, err
	}
	if o.Layers > 0 {
		config.Layers = min(o.Layers, config.Layers)
	}
	b := &roundBench{RoundOptions: o, random: rng.New(o.Seed, "benchmark"), result: &Round{Shape: o.Shape,
		Layers: config.Layers, DType: o.DType.String(), Device: tensor.DefaultDevice().String()}}
	defer b.free()
	if b.result.Rate, err = ProductRate(o.DType); err != nil {
		return nil, err
	}
	out, err := os.MkdirTemp("", "popri-round-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	if err := b.stage("make weights", 0, func() error { return b.make(config) }); err != nil {
		return nil, err
	}
	projections, head := inProducts(b.model)
	token, tail := 2*float64(projections), 2*float64(head)
	all, pairs := float64(o.K*o.J), float64(o.K)
	write := token*(pairs*float64(o.Prompt)+all*float64(o.New-1)) + tail*(pairs+all*float64(o.New-1))
	pair := dpo.Pair{Prompt: make([]int32, o.Prompt), Chosen: make([]int32, o.New), Rejected: make([]int32, o.New)}
	learn := pairs * preferenceFlops(b.model, []dpo.Pair{pair})
	for _, s := range []struct {
		name  string
		flops float64
		do    func() error
	}{
		{"merge adapters", 0, b.merge},
		{"write samples", write, func() error { return b.write(ctx) }},
		{"restore weights", 0, func() error { return b.restore() }},
		{"embed samples", 0, b.embed},
		{"score samples", 0, b.score},
		{"rank pairs", 0, b.rank},
		{"reference", learn / 3, func() error { return b.reference(ctx) }},
		{"updates", learn * 2 / 3, func() error { return updates(ctx, b.tuner, b.pairs) }},
		{"save adapters", 0, func() error { return b.adapter.Save(out) }},
	} {
		if err := b.stage(s.name, s.flops, s.do); err != nil {
			return nil, err
		}
		b.result.Seconds += b.result.Stages[len(b.result.Stages)-1].Seconds
		b.result.Predicted += 2 * s.flops / b.result.Rate
	}
	return b.result, nil
}

func (b *roundBench) free() {
	if b.tuner != nil {
		b.tuner.Optimizer.Free()
	}
	if b.adapter != nil {
		b.adapter.Free()
	}
	if b.model != nil {
		b.model.Free()
	}
	if b.encoder != nil {
		b.encoder.Free()
	}
}

// stage times f, which ends when the device has done its work.
func (b *roundBench) stage(name string, flops float64, f func() error) error {
	peak, end := peakMemory()
	r, err := measure(name, b.result.DType, "", b.Profile, func() (int, error) {
		err := f()
		tensor.Synchronize()
		return 0, err
	})
	end()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s := Stage{Name: name, Seconds: r.Seconds, Flops: flops, Utilisation: flops / r.Seconds / b.result.Rate, Peak: *peak,
		Profile: r.Profile}
	b.result.Stages = append(b.result.Stages, s)
	if b.Done != nil {
		b.Done(s)
	}
	return nil
}

// peakMemory watches the GPU's memory until end is called; without one, it is the process's so far.
func peakMemory() (peak *int64, end func()) {
	peak = new(int64)
	if tensor.GPUMemory() == 0 {
		return peak, func() { *peak = memory.Peak() }
	}
	watch := func() { *peak = max(*peak, tensor.GPUUsed()) }
	watch()
	return peak, parallel.Every(50*time.Millisecond, watch)
}

// make makes the model, adapters that change it, the prompts and the encoder.
func (b *roundBench) make(config lm.Config) (err error) {
	if b.model, err = lm.Random(config, lm.Options{Weights: b.DType, Compute: b.DType}, int64(b.Seed)); err != nil {
		return err
	}
	b.model.Recompute = b.Recompute
	b.result.Parameters, b.result.Config = b.model.Parameters(), b.model.Config
	if b.adapter, err = lora.New(b.model, lora.Config{Rank: b.Rank, Alpha: float64(2 * b.Rank)}, b.random); err != nil {
		return err
	}
	params, err := b.adapter.Trainable()
	if err != nil {
		return err
	}
	for i, p := range params {
		n := int(p.NumElements())
		values := numeric.Tabulate(n, func(int) float32 { return float32(b.random.NormFloat64()) * 1e-3 })
		if i%2 == 1 { // B, which is zeros otherwise
			p.Store(values)
		}
	}
	b.prompts = numeric.Tabulate(b.K, func(int) []int32 {
		return numeric.Tabulate(b.Prompt, func(int) int32 { return int32(b.random.IntN(config.Vocab)) })
	})
	if b.Encoder != "" {
		b.encoder, err = torch.Open(b.Encoder, b.DType)
	}
	return fault.User(err)
}

// merge makes the model that writes, as runs do: on a GPU, where weights have the type of the arithmetic, the model
// itself, else a copy.
func (b *roundBench) merge() (err error) {
	if tensor.GPUMemory() > 0 {
		b.writer = b.model
		b.restore, err = b.adapter.MergeInPlace(b.model)
		return err
	}
	b.restore = func() error {
		b.writer.Free()
		return nil
	}
	b.writer, err = b.adapter.Merge(b.model, lm.Options{Weights: b.DType, Compute: b.DType, Sampling: true})
	return err
}

func (b *roundBench) write(ctx context.Context) (err error) {
	b.samples, err = b.writer.Generate(ctx, b.prompts, b.J, lm.SampleOptions{Temperature: 1, MinNewTokens: b.New,
		MaxNewTokens: b.New, IgnoreEOS: true, Seed: b.Seed})
	return err
}

// embed gives each sample a vector: of words that are as many as its tokens, or, without an encoder, a random one.
func (b *roundBench) embed() (err error) {
	n := b.K * b.J
	if b.encoder == nil {
		b.vectors = unit(b.random, n)
		return nil
	}
	words := strings.Fields("the of and to in a is that for it as was with be by on not he this are or his from at which but")
	texts := numeric.Tabulate(n, func(int) string {
		text := numeric.Tabulate(b.New, func(int) string { return words[b.random.IntN(len(words))] })
		return strings.Join(text, " ")
	})
	b.vectors, err = b.encoder.Encode(texts)
	return err
}

func (b *roundBench) score() error {
	means := query.Means{Clients: b.Clients, Dim: b.vectors.Dim, Data: numeric.Tabulate(b.Clients*b.vectors.Dim,
		func(int) float64 { return b.random.NormFloat64() / 20 })} // about the length of a mean of some unit vectors
	q, err := askable("cosine/none", b.vectors)
	if err == nil {
		b.scores, err = q.Sum(query.Clients{Means: means})
	}
	return err
}

func (b *roundBench) rank() error {
	ranked, err := scoring.Rank[string](b.scores, nil, b.J, b.Rejected, scoring.ByIndex)
	for _, p := range ranked.Pairs {
		b.pairs = append(b.pairs, dpo.Pair{Prompt: b.prompts[p.Prompt], Chosen: b.samples[p.Prompt][p.Chosen].IDs,
			Rejected: b.samples[p.Prompt][p.Rejected].IDs})
	}
	b.result.Pairs = len(b.pairs)
	if err == nil && len(b.pairs) != b.K {
		err = errors.New("a prompt gives no pair")
	}
	return err
}

// reference computes the log-probabilities of the pairs without adapters.
func (b *roundBench) reference(ctx context.Context) (err error) {
	if b.tuner, err = newTuner(b.model, b.adapter, b.pairs, b.Batch, b.Micro); err != nil {
		return err
	}
	return b.tuner.Reference(ctx, b.pairs)
}

// epoch computes the reference log-probabilities of pairs and does the updates on all of them.
func epoch(ctx context.Context, t *dpo.Tuner, pairs []dpo.Pair) error {
	if err := t.Reference(ctx, pairs); err != nil {
		return err
	}
	return updates(ctx, t, pairs)
}

// updates does an update on each batch of pairs.
func updates(ctx context.Context, t *dpo.Tuner, pairs []dpo.Pair) error {
	for batch := range slices.Chunk(pairs, t.BatchPairs) {
		if _, err := t.Step(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// newTuner prepares DPO as the peer's script for TRL does, with passes of the given pairs, or, for 0, as runs do.
func newTuner(m *lm.Model, a *lora.Adapter, pairs []dpo.Pair, batch, micro int) (*dpo.Tuner, error) {
	const β = 0.01
	loss, err := dpo.NewLoss("sigmoid", dpo.Params{Beta: β})
	if err != nil {
		return nil, err
	}
	longest, scored := 0, 0
	for _, p := range pairs {
		longest = max(longest, len(p.Prompt)+len(p.Chosen)+len(p.Rejected))
		scored = max(scored, len(p.Chosen)+len(p.Rejected))
	}
	if micro == 0 {
		micro = trainer.PassSize(m.Config.Activations(int64(longest), int64(scored), m.Compute, m.Recompute),
			int64(longest), batch)
	}
	steps := (len(pairs) + batch - 1) / batch
	return dpo.NewTuner(m, a,
		dpo.Options{Loss: loss, Beta: β, Schedule: trainer.Schedule{Kind: "linear", Peak: 1e-5, Total: steps},
			BatchPairs: batch, MicroPairs: micro, AdamW: trainer.UsualAdamW(0, 1)})
}
