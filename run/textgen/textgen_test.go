package textgen

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"popri/model/lm"
	"popri/testkit/golden"
	"popri/testkit/testmodel"
)

// TestStopOfEachPrompt: words begin with a space, but not the first one of a text, so a sample's text depends on its
// prompt. What ends a sample then depends on its own prompt and not on those before it.
func TestStopOfEachPrompt(t *testing.T) {
	tok := testmodel.Tokenizer(t, filepath.Join(golden.Folder(t, "sentence"), "t5", "tokenizer.json"))
	random := rand.New(rand.NewPCG(1, 2))
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: tok.VocabSize(), Context: 32, Hidden: 16, Layers: 1, Heads: 2,
		Inner: 32, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true}, lm.Options{}, random.NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	special, ok := tok.ID("</s>")
	if !ok {
		t.Fatal("there is no </s>")
	}
	prompts := []Prompt{{IDs: []int32{special}}, {IDs: tok.Encode("one two")}, {IDs: []int32{special, special}}}
	o := Options{Samples: 20, Stop: []string{" "},
		SampleOptions: lm.SampleOptions{MaxNewTokens: 12, Temperature: 1, IgnoreEOS: true}}
	drawn, err := Draw(t.Context(), m, tok, prompts, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range drawn.Samples {
		for n := range x.IDs {
			_, found := cutAt(tok.DecodeAfter(prompts[x.Prompt].IDs, x.IDs[:n+1], true), o.Stop)
			if last := n+1 == len(x.IDs); found && !last || last && found != (x.Finish == "stop") {
				t.Fatalf("prompt %d: a stop text is found after %d tokens of %+v: %v", x.Prompt, n+1, x, found)
			}
		}
	}
}

func TestCutAt(t *testing.T) {
	for _, c := range []struct {
		text  string
		stops []string
		want  string
		found bool
	}{
		{"one. two", nil, "one. two", false},
		{"one. two", []string{";"}, "one. two", false},
		{"one. two", []string{"two", "."}, "one", true},
		{". one", []string{"."}, "", true},
	} {
		if got, found := cutAt(c.text, c.stops); got != c.want || found != c.found {
			t.Errorf("cutAt(%q, %q) = %q, %v", c.text, c.stops, got, found)
		}
	}
}
