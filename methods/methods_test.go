package methods

import (
	"testing"

	"popri/configs"
	"popri/methods/method"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/scoring"
)

// TestTrafficOfTable2: a round's values down and up, as Table 2 of the paper has them for bioRxiv. The votes of Private
// Evolution have check values beside them here. Federated averaging sends all weights of the small model both ways, of
// DistilGPT2 82 million.
func TestTrafficOfTable2(t *testing.T) {
	small, err := shipped.Dir(shipped.Device)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := lm.Inspect(small)
	if err != nil {
		t.Fatal(err)
	}
	weights := int(shape.Parameters)
	for name, want := range map[string]method.Traffic{
		"dp_fedavg":         {Sent: weights, Received: weights},
		"dp_ftrl":           {Sent: weights, Received: weights},
		"private_evolution": {Sent: 1800 + scoring.RoundChecks, Received: 1800 * 384},
		"popri":             {Sent: 18000, Received: 18000 * 384},
	} {
		c, err := configs.Load(configs.LoadOptions{Preset: "paper-biorxiv",
			Set: []string{"data.private=a", "data.public=b", "model.path=c", "scoring.encoder=latent",
				"downstream.model=embedded", "trainer.rounds=1", "private_evolution.population=1800",
				"method=" + name}})
		if err != nil {
			t.Fatal(err)
		}
		if got := Of(*c).Traffic(*c); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	distilGPT2 := lm.ShapeOf(lm.Config{Type: "gpt2", Layers: 6, Hidden: 768, Heads: 12, Inner: 4 * 768, Context: 1024,
		Vocab: 50257})
	if distilGPT2.Parameters != 81912576 {
		t.Errorf("DistilGPT2 has %d weights, want 82 million", distilGPT2.Parameters)
	}
}
