package evolution

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/testkit/golden"
)

func openFilling(t *testing.T, kind string, share float64, passes int) filling {
	t.Helper()
	m, err := openMasked(filepath.Join(golden.Folder(t, "masked"), kind), tensor.Float32)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	generator, err := tokenizer.TrainBPE(slices.Values([]string{"texts of some words"}),
		tokenizer.TrainOptions{VocabSize: 260, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	return filling{m, generator, share, passes}
}

// Masked filling changes the set share of the tokens and no others, gives no special tokens, depends on the seed alone,
// and leaves what is beyond the model's context as it was.
func TestFilling(t *testing.T) {
	for _, kind := range []string{"bert", "roberta"} {
		f := openFilling(t, kind, 0.3, 1)
		texts := []string{"la mi no ra tu", "so", "", strings.Repeat("ra ", 200)}
		var prompts [][]int32
		for _, text := range texts {
			prompts = append(prompts, f.generator.Encode(text))
		}
		fill := func(f filling, seed uint64) (out []string) {
			drawn, err := f.Generate(t.Context(), prompts, 1, lm.SampleOptions{Temperature: 1, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range drawn {
				out = append(out, f.generator.Decode(d[0].IDs, true))
			}
			return out
		}
		got := fill(f, 1)
		if again := fill(f, 1); !slices.Equal(got, again) {
			t.Errorf("%s: the same seed gives %q and %q", kind, got, again)
		}
		if other := fill(f, 2); slices.Equal(got, other) {
			t.Errorf("%s: the seed changes nothing", kind)
		}
		if strings.TrimSpace(got[2]) != "" {
			t.Errorf("%s: an empty text became %q", kind, got[2])
		}
		long := f.tokenizer.Encode(f.generator.Decode(prompts[3], true))
		prefix, suffix := f.tokenizer.Template()
		room := f.model.Config.Context - len(prefix) - len(suffix)
		if end := f.tokenizer.Decode(long[room:], true); len(long) <= room || !strings.HasSuffix(got[3], end) {
			t.Errorf("%s: %d tokens, of which %d are read, became %q", kind, len(long), room, got[3])
		}
		for i, text := range got {
			for _, sign := range []string{"[", "<mask>", "<s>"} {
				if strings.Contains(text, sign) {
					t.Errorf("%s: text %d became %q", kind, i, text)
				}
			}
		}
		twice := f
		twice.passes = 2
		if slices.Equal(fill(twice, 1), got) {
			t.Errorf("%s: a second pass changes nothing", kind)
		}
	}
	dir := filepath.Join(golden.Folder(t, "models"), "gpt2-tiny")
	if _, err := openMasked(dir, tensor.Float32); err == nil {
		t.Error("a folder without a masked model was opened")
	}
}

// A pass of PrE-Text masks 30 % of a text's tokens, one at least, each at most once.
func TestPlaces(t *testing.T) {
	f := filling{share: rulesOf(settings.Of(configured(t))).share}
	for n, want := range map[int]int{0: 0, 1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 10: 3, 64: 19, 200: 60} {
		places := f.positions(n, rng.New(1, "places"))
		slices.Sort(places)
		if len(places) != want || len(slices.Compact(places)) != want || want > 0 && (places[0] < 0 ||
			places[want-1] >= n) {
			t.Errorf("of %d tokens %v are masked, want %d", n, places, want)
		}
	}
}
