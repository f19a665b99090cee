// Command loop is POPri's loop made of the library alone: the clients of the embedded default, the generator that comes
// with popri, an encoder that is fitted to public text, cosine scores with noise, preference pairs and DPO. A run
// (package run) adds checkpoints, evaluation and reports to this, and returns errors where this program ends.
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

// K prompts, J samples of each, T rounds; rank ℓ is rejected. All rounds together spend ε at most.
const (
	prompts, samples, rounds, rejectedRank = 24, 8, 2, 5
	epsilon, delta                         = 7, 1e-4
)

func main() {
	dir := must(os.MkdirTemp("", "popri-loop"))
	defer os.RemoveAll(dir)
	loop(context.Background(), dir)
}

// loop wires the parts and does the rounds. Ledger, releases and adapter are in dir.
func loop(ctx context.Context, dir string) {
	corpus, random := must(godoc.Load("")), rand.New(rand.NewPCG(1, 1))
	public, train := datasets.Strings(corpus.Public.Prompts), corpus.Private.Split(clients.Train)
	folder := must(shipped.Dir(shipped.Generator))
	tok, model := must(tokenizer.Load(folder)), must(lm.Load(folder, lm.Options{}))
	adapter := must(lora.New(model, lora.Config{Rank: 8, Alpha: 16}, random))
	tuner := must(dpo.NewTuner(model, adapter, dpo.Options{Loss: must(dpo.NewLoss("sigmoid", dpo.Params{Beta: 0.1})),
		Beta: 0.1, Schedule: trainer.Constant(5e-4), BatchPairs: 6, MicroPairs: 6,
		AdamW: trainer.UsualAdamW(0, 1)}))
	encoder := must(embedding.FitLatent(public, embedding.LatentConfig{}))
	spent := must(ledger.Create(filepath.Join(dir, "ledger.jsonl"), ledger.Budget{Epsilon: epsilon, Delta: delta,
		Mechanism: "gaussian", Unit: corpus.Private.Unit, Relation: accountant.ZeroOut, Clients: len(train)}))
	sigma := must(accountant.Plan{Each: accountant.Event{Count: rounds}}.Sigma(accountant.Exact{}, epsilon, delta))
	federation := must(fedsim.New(fedsim.Embedded{Clients: must(fedsim.Embed(ctx, train, encoder, false, nil))},
		fedsim.Gaussian{Sigma: sigma}, fedsim.Config{Ledger: spent}))

	for round := 1; round <= rounds; round++ {
		// The generator writes J samples for each of K prompts made of public text.
		asked := make([][]int32, prompts)
		for k := range asked {
			asked[k] = tok.Encode(public[random.IntN(len(public))] + "\n")
		}
		tuned := must(adapter.Merge(model, lm.Options{Weights: model.Compute, Compute: model.Compute, Sampling: true}))
		drawn := must(tuned.Generate(ctx, asked, samples, lm.SampleOptions{Temperature: 1, MaxNewTokens: 48,
			MinNewTokens: 4, Seed: uint64(round)}))
		tuned.Free()
		var texts []string
		for _, ofPrompt := range drawn {
			for _, s := range ofPrompt {
				texts = append(texts, tok.Decode(s.IDs, true))
			}
		}

		// Every client compares the samples with its own texts. One noised sum of clipped scores leaves the clients.
		question := must(scoring.NewCosine(must(encoder.Encode(texts)),
			scoring.Options{Normalize: scoring.Standardized, Clip: 1}, fmt.Sprint("round ", round)))
		files := filepath.Join(dir, fmt.Sprint("round-", round))
		check(os.Mkdir(files, 0o755))
		answer := must(federation.Collect(release.Request{Round: round, Query: question, Dir: files}))
		scores := must(question.Project(answer.Sum)) // takes out the part of the noise that no true sum can have

		// Per prompt, the best sample is chosen and the one of rank ℓ rejected, and DPO trains the adapter.
		var pairs []dpo.Pair
		for _, p := range must(scoring.Rank(scores, texts, samples, rejectedRank, scoring.SkipDuplicates)).Pairs {
			pairs = append(pairs, dpo.Pair{Prompt: asked[p.Prompt], Chosen: drawn[p.Prompt][p.Chosen].IDs,
				Rejected: drawn[p.Prompt][p.Rejected].IDs, PromptIndex: p.Prompt})
		}
		check(tuner.Reference(ctx, pairs))
		fit := dpo.Fit{Tuner: tuner, Pairs: pairs, Epochs: 1, Order: func(int) []int { return random.Perm(len(pairs)) }}
		steps := must(fit.Run(ctx)).Steps
		fmt.Printf("round %d: %d clients scored %d samples, DPO's loss on %d pairs is %.3f\n", round, answer.Clients,
			len(texts), len(pairs), steps[len(steps)-1].Loss)
	}
	fmt.Printf("ε = %s of %d is spent at δ = %g\n", accountant.RoundUp(must(spent.Spent()), 4), epsilon, float64(delta))
	check(adapter.Save(filepath.Join(dir, "adapter"))) // in PEFT's format
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
