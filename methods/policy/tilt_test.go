package policy

import (
	"math"
	"strings"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
	"popri/model/embedding/words"
	"popri/model/shipped"
	"popri/model/tokenizer"
)

// TestFitTilt: without noise, the weights move the samples' frequencies to the clients', and weights that were in use before are
// counted. Where the noise hides everything, the weights go back to nothing.
func TestFitTilt(t *testing.T) {
	dir, err := shipped.Dir(shipped.Generator)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	some := strings.Fields("the reader returns error value list node type name file line")
	random := rng.New(1, t.Name())
	texts := func(skew float64) (out []string) { // later words are rarer by a power of skew
		for range 3000 {
			var b strings.Builder
			for range 10 {
				b.WriteString(" " + some[int(float64(len(some))*math.Pow(random.Float64(), skew))])
			}
			out = append(out, b.String())
		}
		return out
	}
	samples, private := texts(1), texts(2)
	sentences, err := embedding.FitHashing(samples[:50], embedding.HashingConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	e, err := words.New(sentences, tok, samples, 40)
	if err != nil {
		t.Fatal(err)
	}
	truth, total := e.Count(private)
	wanted, square := make([]float64, len(truth)), 0.0
	for i, n := range truth {
		wanted[i] = float64(e.Weights[i]) * n
		square += wanted[i] * wanted[i]
	}
	for i := range wanted {
		wanted[i] /= math.Sqrt(square)
	}
	weights, divergence := fitTilt(e, wanted, 1e-4, samples, nil)
	if divergence < 0.05 {
		t.Errorf("the samples' frequencies are to move by %.3f nats", divergence)
	}
	have, written := e.Count(samples)
	for i, n := range truth {
		if n < 300 {
			continue
		}
		if want := math.Log(n / total / (have[i] / written)); math.Abs(float64(weights[i])-float64(weights[0])-want+
			math.Log(truth[0]/total/(have[0]/written))) > 0.15 {
			t.Errorf("token %q has the weight %.2f, want %.2f", tok.Token(e.Tokens[i]), weights[i], want)
		}
	}
	// With these weights, the model writes as the clients do: nothing is left to move.
	if again, left := fitTilt(e, wanted, 1e-4, private, weights); left > divergence/10 || math.Abs(float64(again[0]-weights[0])) > 0.2 {
		t.Errorf("%.4f nats are left of %.4f; the first weight goes from %.2f to %.2f", left, divergence, weights[0], again[0])
	}
	hidden, _ := fitTilt(e, wanted, 100, samples, weights)
	for i, w := range hidden {
		if math.Abs(float64(w)) > tiltStep {
			t.Errorf("token %d has the weight %.2f where the noise hides everything", e.Tokens[i], w)
		}
	}
}
