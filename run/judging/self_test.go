package judging

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/run/assembly"
	"popri/testkit/testworld"
)

// TestSelf: the generator answers with the letter that it finds likelier behind the question, written by its chat
// template where it has one.
func TestSelf(t *testing.T) {
	w, err := testworld.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(w.Generator)
	if err != nil {
		t.Fatal(err)
	}
	m, err := lm.New(lm.Config{Type: "llama", Vocab: tok.VocabSize(), Context: 512, Hidden: 32, Layers: 2, Heads: 4,
		KVHeads: 2, Inner: 48, NormEps: 1e-6, ScaleAttn: true, Rotary: lm.Rotary{Theta: 1e4}}, lm.Options{},
		rng.New(1, t.Name()).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	prefix, _ := tok.Template()
	given := map[string]bool{}
	for _, template := range []string{"",
		"{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}!{% endif %}"} {
		dir := t.TempDir()
		if template != "" {
			if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ask, err := self(assembly.Generator{Model: m, Tokenizer: tok, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, question := range []string{"which one?", "the other one?", "A or B", "is this by a person",
			"or was it made up", "one letter"} {
			got, err := ask(t.Context(), question)
			if err != nil {
				t.Fatal(err)
			}
			given[got] = true
			text, space := question+"\n\nAnswer:", " "
			if template != "" {
				text, space = "<"+question+">!", ""
			}
			likely := map[string]float64{}
			for _, letter := range []string{"A", "B"} {
				err := tensor.Run(func(s *tensor.Scope) error {
					row := lm.NewRow(slices.Concat(prefix, tok.Encode(text)), tok.Encode(space+letter))
					for _, p := range m.Score(s, []lm.Row{row}, nil, false).LogProbs {
						likely[letter] += float64(p)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if want := map[bool]string{true: "A", false: "B"}[likely["A"] >= likely["B"]]; got != want {
				t.Errorf("%q: %q, likelihoods %v", question, got, likely)
			}
		}
	}
	if len(given) != 2 {
		t.Errorf("all answers are %v", given)
	}
}
