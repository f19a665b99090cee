package incontext

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"popri/eval/downstream"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/testkit/testmodel"
)

func load(t *testing.T) (*lm.Model, Format) {
	t.Helper()
	dir, err := shipped.Dir(shipped.Generator)
	if err != nil {
		t.Fatal(err)
	}
	tok := testmodel.Tokenizer(t, dir)
	m := testmodel.Load(t, dir, lm.Options{})
	t.Cleanup(m.Free)
	return m, Format{Item: DefaultItem, Length: 16, Tokenizer: tok}
}

// TestAnswersAreLikelihoods: each answer is the log-probability of its label's
// tokens behind the whole prompt, computed by itself.
func TestAnswersAreLikelihoods(t *testing.T) {
	m, f := load(t)
	f.Header = "Which part of the toolchain is meant?"
	f.Names = map[string]string{"as": "the assembler"}
	labels := []string{"as", "link_editor", "vet"}
	long := strings.Repeat("the linker writes symbols and relocations of the object file ", 4)
	shown := []Example{{Text: "package obj reads object files", Label: "link_editor"},
		{Text: "an operand is an address", Label: "as"}, {Text: long, Label: "vet"}}
	texts := []string{"instructions are encoded", long, "a test fails", "x", long + long, "the symbol table is sorted"}
	for name, demonstrations := range map[string][]Example{"none": nil, "one": shown[:1], "three": shown} {
		got, err := f.Ask(context.Background(), m, demonstrations, texts, labels, nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := f.beginning(demonstrations)
		for i, text := range append(slices.Clone(texts), noContent) {
			have := got.Prior
			if i < len(texts) {
				have = got.LogProbs[i]
			}
			for l, label := range labels {
				prompt := slices.Concat(begin, f.question(text))
				err := tensor.Run(func(s *tensor.Scope) error {
					want := 0.0
					for _, p := range m.Score(s, []lm.Row{lm.NewRow(prompt, f.answer(label))}, nil, false).LogProbs {
						want += float64(p)
					}
					if math.Abs(have[l]-want) > 1e-4*math.Abs(want) {
						t.Errorf("%s, text %d, label %s: %g, want %g", name, i, label, have[l], want)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestPromptReads: a prompt is what its parts say, and the text that is asked about is cut at the end of a word.
func TestPromptReads(t *testing.T) {
	_, f := load(t)
	f.Header, f.Names = "Labels.", map[string]string{"neg": "negative"}
	shown := []Example{{Text: "a dull\n\nfilm", Label: "neg"},
		{Text: "what fun", Label: "very_good", Reason: "It praises."}}
	got := f.Tokenizer.Decode(slices.Concat(f.beginning(shown), f.question("one two three"), f.answer("neg")), false)
	want := "Labels.\n\nText: a dull film\nLabel: negative\n\nText: what fun\nLabel: very good\nReason: It praises." +
		"\n\nText: one two three\nLabel: negative"
	if got != want {
		t.Errorf("the prompt is %q, want %q", got, want)
	}
	text := f.Text(strings.Repeat("word ", 100))
	if n := len(f.Tokenizer.Encode(text)); n > f.Length || n < f.Length/2 || strings.HasSuffix(text, " ") {
		t.Errorf("a long text was cut to %d tokens, %q", n, text)
	}
}

func TestFormatIsChecked(t *testing.T) {
	for _, c := range []struct {
		item   string
		names  map[string]string
		labels []string
		want   string // "" for no error
	}{
		{DefaultItem, nil, []string{"a", "b"}, ""},
		{"{text} ({label})", nil, []string{"a", "b"}, "end in {label}"},
		{"Label: {label}", nil, []string{"a", "b"}, "{text} once"},
		{"{text} {text} {label}", nil, []string{"a", "b"}, "{text} once"},
		{DefaultItem, map[string]string{"a": "x y"}, []string{"a", "x_y"}, "the same name"},
		{DefaultItem, map[string]string{"c": "see"}, []string{"a", "b"}, `the label "c"`},
		{DefaultItem, nil, []string{"a", "_"}, "has no name"},
	} {
		err := Format{Item: c.item, Names: c.names}.Check(c.labels)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v %v: %v, want %q", c.item, c.names, c.labels, err, c.want)
		}
	}
}

// TestDrawIsEven: demonstrations are spread over the labels as evenly as the examples allow, each at most once.
func TestDrawIsEven(t *testing.T) {
	var examples []Example
	for i, n := range []int{1, 5, 9} {
		for j := range n {
			examples = append(examples, Example{Text: strings.Repeat("x", 1+j), Label: string(rune('a' + i))})
		}
	}
	for k, want := range map[int][]int{0: {0, 0, 0}, 3: {1, 1, 1}, 7: {1, 3, 3}, 12: {1, 5, 6}, 99: {1, 5, 9}} {
		first := map[string]bool{}
		for seed := range uint64(20) {
			drawn := Draw(examples, k, rng.New(seed, "draw"))
			counts, seen := make([]int, 3), map[Example]bool{}
			for _, e := range drawn {
				counts[e.Label[0]-'a']++
				if seen[e] {
					t.Fatalf("%v was drawn twice", e)
				}
				seen[e] = true
			}
			if !slices.Equal(counts, want) {
				t.Errorf("%d of the labels a, b, c: %v, want %v", k, counts, want)
			}
			if k > 0 {
				first[drawn[0].Label] = true
			}
		}
		if k == 3 && len(first) < 3 {
			t.Errorf("in 20 draws, only %v came first", first)
		}
	}
}

// TestCalibrated: what the model says of a text without content is taken away.
func TestCalibrated(t *testing.T) {
	a := Answers{LogProbs: [][]float64{{-1, -3}, {-2, -2.5}}, Prior: []float64{-1, -4}}
	for at, want := range [][2]int{{0, 1}, {0, 1}} {
		if got := [2]int{a.Label(at, false), a.Label(at, true)}; got != want {
			t.Errorf("text %d: %v, want %v", at, got, want)
		}
	}
}

// TestMeasured against sklearn's accuracy_score and f1_score(average="macro").
func TestMeasured(t *testing.T) {
	accuracy, f1 := measured([]downstream.Named{{0, 0}, {0, 1}, {1, 1}, {2, 1}, {2, 2}, {2, 2}})
	if math.Abs(accuracy-4.0/6) > 1e-12 || math.Abs(f1-(2.0/3+0.5+0.8)/3) > 1e-12 {
		t.Errorf("accuracy %g, macro F1 %g", accuracy, f1)
	}
}

// TestRefusesWhatDoesNotFit: a prompt beyond the model's context is an error that says what to do.
func TestRefusesWhatDoesNotFit(t *testing.T) {
	m, f := load(t)
	f.Length = 1000
	shown := slices.Repeat([]Example{{Text: strings.Repeat("symbols of the linker ", 60), Label: "a"}}, 40)
	_, err := f.Ask(context.Background(), m, shown, []string{"x"}, []string{"a", "b"}, nil)
	if err == nil || !strings.Contains(err.Error(), "show fewer") {
		t.Errorf("error %v", err)
	}
}
