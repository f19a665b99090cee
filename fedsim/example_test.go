package fedsim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/model/embedding"
	"popri/scoring"
)

// Two hundred clients score three texts, once. What leaves them is one noised sum, which the ledger covers.
func Example() {
	dir, err := os.MkdirTemp("", "federation")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	population := make([]clients.Client, 200)
	for i := range population {
		population[i] = clients.Client{ID: fmt.Sprint(i), Split: clients.Train, Texts: []string{"the storm at sea"}}
	}
	encoder, err := embedding.FitHashing([]string{"a storm", "the sea", "a quiet street"}, embedding.HashingConfig{})
	if err != nil {
		panic(err)
	}
	embedded, err := fedsim.Embed(context.Background(), population, encoder, false, nil)
	if err != nil {
		panic(err)
	}
	budget, err := ledger.Create(filepath.Join(dir, "ledger.jsonl"), ledger.Budget{Epsilon: 3, Delta: 1e-3,
		Mechanism: "gaussian", Unit: "a client is one text", Relation: accountant.ZeroOut, Clients: len(population)})
	if err != nil {
		panic(err)
	}
	defer budget.Close()

	federation, err := fedsim.New(fedsim.Embedded{Clients: embedded}, fedsim.Gaussian{Sigma: 2},
		fedsim.Config{Ledger: budget})
	if err != nil {
		panic(err)
	}
	samples, err := encoder.Encode([]string{"a storm at sea", "the sea", "a quiet street"})
	if err != nil {
		panic(err)
	}
	question, err := scoring.NewCosine(samples, scoring.Options{Normalize: scoring.None, Clip: 1}, "three texts")
	if err != nil {
		panic(err)
	}
	answer, err := federation.Collect(release.Request{Round: 1, Query: question, Dir: dir})
	if err != nil {
		panic(err)
	}
	spent, err := budget.Spent()
	if err != nil {
		panic(err)
	}
	scores := answer.Mean()
	fmt.Println(answer.Clients, "clients; a storm at sea is more like theirs than a quiet street:", scores[0] > scores[2])
	fmt.Println("ε =", accountant.RoundUp(spent, 3), "at δ = 0.001")
	// Output:
	// 200 clients; a storm at sea is more like theirs than a quiet street: true
	// ε = 1.36 at δ = 0.001
}
