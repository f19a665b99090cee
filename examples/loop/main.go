// Command loop is POPri's loop made of the library alone: the clients of the embedded default, the generator that comes
// with popri, an encoder that is fitted to public text, cosine scores with noise, preference pairs and DPO. A run
// (package run) adds checkpoints, evaluation and reports to this.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/datasets/godoc"
	"popri/dpo"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/lora"
	"popri/model/embedding"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tokenizer"
	"popri/scoring"
	"popri/trainer"
)

func main() {
	dir, err := os.MkdirTemp("", "popri-loop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := loop(context.Background(), dir); err != nil {
		log.Fatal(err)
	}
}

// The size of the loop: K prompts, J samples of each, T rounds; rank ℓ is rejected.
const (
	prompts, samples, rounds, rejectedRank = 24, 8, 2, 5
	epsilon, delta                         = 7, 1e-4
)

// loop wires the parts and does the rounds. Ledger, releases and adapter lie in dir.
func loop(ctx context.Context, dir string) error {
	corpus, err := godoc.Load("") // clients and public text
	if err != nil {
		return err
	}
	p := parts{public: datasets.Strings(corpus.Public.Prompts), random: rand.New(rand.NewPCG(1, 1))}
	if p.model, p.tokenizer, err = generator(); err != nil {
		return err
	}
	defer p.model.Free()
	if p.adapter, err = lora.New(p.model, lora.Config{Rank: 8, Alpha: 16}, p.random); err != nil {
		return err
	}
	defer p.adapter.Free()
	if p.tuner, err = newTuner(p.model, p.adapter); err != nil {
		return err
	}
	defer p.tuner.Optimizer.Free()
	if p.encoder, err = embedding.FitLatent(p.public, embedding.LatentConfig{}); err != nil {
		return err
	}
	var budget *ledger.Ledger
	if p.federation, budget, err = federate(ctx, dir, corpus.Private, p.encoder); err != nil {
		return err
	}
	defer budget.Close()
	for n := 1; n <= rounds; n++ {
		if err := p.round(ctx, n, filepath.Join(dir, fmt.Sprintf("round-%d", n))); err != nil {
			return err
		}
	}
	spent, err := budget.Spent()
	if err != nil {
		return err
	}
	fmt.Printf("ε = %s of %d is spent at δ = %g\n", accountant.RoundUp(spent, 4), epsilon, float64(delta))
	return p.adapter.Save(filepath.Join(dir, "adapter")) // in PEFT's format
}

// parts are what the rounds are made of.
type parts struct {
	public     []string
	model      *lm.Model
	tokenizer  *tokenizer.Tokenizer
	adapter    *lora.Adapter
	tuner      *dpo.Tuner
	encoder    embedding.Encoder
	federation *fedsim.Federation
	random     *rand.Rand
}

// round does one round, whose release lies in dir.
func (p *parts) round(ctx context.Context, n int, dir string) error {
	// The generator writes J samples for each of K prompts made of public text.
	asked := make([][]int32, prompts)
	for k := range asked {
		asked[k] = p.tokenizer.Encode(p.public[p.random.IntN(len(p.public))] + "\n")
	}
	tuned, err := p.adapter.Merge(p.model, lm.Options{Weights: p.model.Compute, Compute: p.model.Compute, Sampling: true})
	if err != nil {
		return err
	}
	defer tuned.Free()
	drawn, err := tuned.Generate(ctx, asked, samples, lm.SampleOptions{Temperature: 1, MaxNewTokens: 48, MinNewTokens: 4,
		Seed: uint64(n)})
	if err != nil {
		return err
	}
	texts := decode(p.tokenizer, drawn)

	// Every client compares the samples with its own texts. One noised sum of clipped scores leaves the clients.
	vectors, err := p.encoder.Encode(texts)
	if err != nil {
		return err
	}
	question, err := scoring.NewCosine(vectors, scoring.Options{Normalize: scoring.Standardized, Clip: 1},
		fmt.Sprint("round ", n))
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	answer, err := p.federation.Collect(release.Request{Round: n, Query: question, Dir: dir})
	if err != nil {
		return err
	}
	scores, err := question.Project(answer.Sum) // the part of the noise that no true sum can have is taken out
	if err != nil {
		return err
	}

	// Per prompt, the best sample is chosen and the one of rank ℓ rejected, and DPO trains the adapter.
	pairs, err := preferences(asked, drawn, texts, scores)
	if err != nil {
		return err
	}
	if err := p.tuner.Reference(ctx, pairs); err != nil {
		return err
	}
	fit := dpo.Fit{Tuner: p.tuner, Pairs: pairs, Epochs: 1, Order: func(int) []int { return p.random.Perm(len(pairs)) }}
	trained, err := fit.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("round %d: %d clients scored %d samples, DPO's loss on %d pairs is %.3f\n", n, answer.Clients, len(texts),
		len(pairs), trained.Steps[len(trained.Steps)-1].Loss)
	return nil
}

// generator loads the language model that comes with popri.
func generator() (*lm.Model, *tokenizer.Tokenizer, error) {
	dir, err := shipped.Dir(shipped.Generator)
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, nil, err
	}
	model, err := lm.Load(dir, lm.Options{})
	return model, tok, err
}

func newTuner(model *lm.Model, adapter *lora.Adapter) (*dpo.Tuner, error) {
	loss, err := dpo.NewLoss("sigmoid", dpo.Params{Beta: 0.1})
	if err != nil {
		return nil, err
	}
	return dpo.NewTuner(model, adapter, dpo.Options{Loss: loss, Beta: 0.1, Schedule: trainer.Constant(5e-4), BatchPairs: 6,
		MicroPairs: 6, AdamW: trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxNorm: 1}})
}

// federate embeds the train clients' texts, and calibrates the noise so that all rounds together spend ε at most.
func federate(ctx context.Context, dir string, p *clients.Population, e embedding.Encoder) (*fedsim.Federation,
	*ledger.Ledger, error) {
	train := p.Split(clients.Train)
	embedded, err := fedsim.Embed(ctx, train, e, false, nil)
	if err != nil {
		return nil, nil, err
	}
	budget := ledger.Budget{Epsilon: epsilon, Delta: delta, Mechanism: "gaussian", Unit: p.Unit,
		Relation: accountant.ZeroOut, Clients: len(train)}
	l, err := ledger.Create(filepath.Join(dir, "ledger.jsonl"), budget)
	if err != nil {
		return nil, nil, err
	}
	sigma, err := accountant.Plan{Each: accountant.Event{Count: rounds}}.Sigma(accountant.Exact{}, epsilon, delta)
	if err != nil {
		return nil, nil, err
	}
	f, err := fedsim.New(fedsim.Embedded{Clients: embedded}, fedsim.Gaussian{Sigma: sigma}, fedsim.Config{Ledger: l})
	return f, l, err
}

// decode lists the samples' texts, those of a prompt in succession.
func decode(tok *tokenizer.Tokenizer, drawn [][]lm.Sample) (texts []string) {
	for _, ofPrompt := range drawn {
		for _, s := range ofPrompt {
			texts = append(texts, tok.Decode(s.IDs, true))
		}
	}
	return texts
}

// preferences pairs the best sample of each prompt with the one of rank ℓ.
func preferences(asked [][]int32, drawn [][]lm.Sample, texts []string, scores []float64) (pairs []dpo.Pair, err error) {
	ranking, err := scoring.Rank(scores, texts, samples, rejectedRank, scoring.SkipDuplicates)
	for _, p := range ranking.Pairs {
		pairs = append(pairs, dpo.Pair{Prompt: asked[p.Prompt], Chosen: drawn[p.Prompt][p.Chosen].IDs,
			Rejected: drawn[p.Prompt][p.Rejected].IDs, PromptIndex: p.Prompt})
	}
	return pairs, err
}
