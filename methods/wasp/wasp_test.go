package wasp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"popri/configs"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/tokenizer"
)

// TestWeightsByHand: two generators of as many texts, whose near votes are 3 and 1; votes below 0 count as 0.
func TestWeightsByHand(t *testing.T) {
	for _, c := range []struct {
		name string
		near []float64
		of   []int
		k    int
		want []float64
	}{
		{"as many texts", []float64{1, 2, 0.5, 0.5}, []int{0, 0, 1, 1}, 2, []float64{1.5, 0.5}},
		{"below 0", []float64{3, -7, 1, -2}, []int{0, 0, 1, 1}, 2, []float64{1.5, 0.5}},
		{"another number of texts", []float64{3, 0.5, 0.5, 0}, []int{0, 1, 1, 1}, 2, []float64{3, 1.0 / 3}},
		{"no votes", []float64{0, -1}, []int{0, 1}, 2, []float64{1, 1}},
		{"no texts", []float64{2, 2}, []int{0, 0}, 2, []float64{1, 0}},
		{"one generator", []float64{2, 5}, []int{0, 0}, 1, []float64{1}},
	} {
		got := weights(c.near, c.of, c.k)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
	if got := shares(1200, []float64{1.5, 0.5}); !slices.Equal(got, []int{900, 300}) {
		t.Errorf("weights of 1.5 and 0.5 share 1200 texts as %v", got)
	}
}

// TestShares: shares are within 1 of the exact ones and add up, parts add up to N, and a label has
// at most its part, rounded up.
func TestShares(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n, k := r.IntN(2000), 1+r.IntN(8)
		w, total := make([]float64, k), 0.0
		for i := range w {
			w[i] = r.Float64() * float64(r.IntN(3))
			total += w[i]
		}
		if total == 0 {
			continue
		}
		sum := 0
		for i, s := range shares(n, w) {
			if exact := w[i] / total * float64(n); s < 0 || math.Abs(float64(s)-exact) >= 1 {
				t.Fatalf("%v of %d: %d, exactly %g", w, n, s, exact)
			}
			sum += s
		}
		parts, all := 1+r.IntN(9), 0
		for p := 1; p <= parts; p++ {
			all += part(n, parts, p)
		}
		if sum != n || all != n {
			t.Fatalf("%d texts: the shares of %v add up to %d, %d parts to %d", n, w, sum, parts, all)
		}
		classes := 1 + r.IntN(5)
		counts := make([]int, classes)
		for _, c := range labelled(n, classes, r) {
			counts[c]++
		}
		if slices.Max(counts) > (n+classes-1)/classes {
			t.Fatalf("%d texts of %d labels: %v", n, classes, counts)
		}
	}
}

func ofWASP(t *testing.T, set ...string) Settings {
	t.Helper()
	c, err := configs.Load(configs.LoadOptions{Set: append(set, "wasp.item=movie review",
		"wasp.words=pos=positive sentiment")})
	if err != nil {
		t.Fatal(err)
	}
	return settings.Of(*c)
}

// TestPrompts: the bad texts come first, half of those that are shown, and are drawn from the pools; without contrast
// the good ones alone; without a release none.
func TestPrompts(t *testing.T) {
	var p pool
	for i := range 8 {
		p.good, p.bad = append(p.good, fmt.Sprint("good-", i)), append(p.bad, fmt.Sprint("bad-", i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		set       string
		good, bad int
	}{{"wasp.contrast=true", 4, 4}, {"wasp.contrast=false", 8, 0}} {
		w := ofWASP(t, c.set)
		seen := map[string]bool{}
		for range 50 {
			good, bad := p.shown(w, random)
			text := instruction(w, "pos", "on horror", good, bad)
			goods, bads := strings.Count(text, `"good-`), strings.Count(text, `"bad-`)
			if len(good) != c.good || len(bad) != c.bad || goods != c.good || bads != c.bad {
				t.Fatalf("%s: %d good and %d bad texts in\n%s", c.set, goods, bads, text)
			}
			if i := strings.LastIndex(text, `"bad-`); i > strings.Index(text, `"good-`) {
				t.Fatalf("%s: a bad text is behind a good one:\n%s", c.set, text)
			}
			if !strings.Contains(text, "movie review of positive sentiment (on horror)") {
				t.Fatalf("the label or the attribute is missing:\n%s", text)
			}
			for _, s := range append(good, bad...) {
				seen[s] = true
			}
		}
		if want := map[bool]int{true: 16, false: 8}[c.bad > 0]; len(seen) != want {
			t.Errorf("%s: 50 prompts show %d texts of the pools, want %d", c.set, len(seen), want)
		}
	}
	good, bad := pool{}.shown(ofWASP(t), random)
	if text := instruction(ofWASP(t), "age_limit", "", good,
		bad); text != "Write a new movie review of age limit.\nThe new movie review is:" {
		t.Errorf("without texts to show the prompt is %q", text)
	}
}

// TestServerRefuses: after one refusal, no further prompts are sent.
func TestServerRefuses(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "no credit", http.StatusPaymentRequired)
	}))
	defer server.Close()
	s := serving{newAPI(server.URL+"/#model", false), bytesTokenizer(t)}
	_, err := s.Generate(t.Context(), make([][]int32, 100), 1, lm.SampleOptions{MaxNewTokens: 1})
	if err == nil || !strings.Contains(err.Error(), "no credit") || asked.Load() > atOnce {
		t.Errorf("%d prompts were sent: %v", asked.Load(), err)
	}
}

// bytesTokenizer has a token for each byte.
func bytesTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.TrainBPE(slices.Values([]string{"a"}),
		tokenizer.TrainOptions{VocabSize: 258, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestPromptsFit: texts are left out until the prompt fits, the longest first; a task that does not fit is an error.
func TestPromptsFit(t *testing.T) {
	tok := bytesTokenizer(t)
	w := ofWASP(t)
	good, bad := []string{"short", strings.Repeat("good ", 30)}, []string{"brief", strings.Repeat("bad ", 30)}
	for context, want := range map[int]string{2000: "good good", 500: "short", 150: "Write a new"} {
		p, err := sampling.NewAnswering(tok, configs.Generate{}, configs.Data{MaxTokens: 100}, context, 10)
		if err != nil {
			t.Fatal(err)
		}
		x, err := prompt(p, w, "pos", "", good, bad)
		if err != nil || !strings.Contains(x.Text, want) || len(x.IDs) > context-10 ||
			!strings.HasSuffix(x.Text, "\n\"") {
			t.Errorf("context %d: %d tokens, %q (%v)", context, len(x.IDs), x.Text, err)
		}
	}
	p, err := sampling.NewAnswering(tok, configs.Generate{}, configs.Data{MaxTokens: 100}, 40, 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prompt(p, w, "pos", "", good, bad); !errors.Is(err, sampling.ErrTooLong) {
		t.Errorf("a task of more tokens than the context: %v", err)
	}
}

// TestHighest: of each label the texts with the highest counts, ties to the lower index, or all where these are fewer.
func TestHighest(t *testing.T) {
	texts := []row{{Label: "a"}, {Label: "b"}, {Label: "a"}, {Label: "a"}, {Label: "a"}}
	counts := []float64{1, 9, 3, 3, -2}
	for n, want := range map[int][]int{1: {2}, 2: {2, 3}, 9: {2, 3, 0, 4}} {
		if got := highest(texts, "a", counts, n); !slices.Equal(got, want) {
			t.Errorf("the %d highest are %v, want %v", n, got, want)
		}
	}
}
