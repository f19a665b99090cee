package judge

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
)

// writer writes texts about a subject: words by a chain, so that texts of a subject have phrases in common.
type writer struct{ random *rand.Rand }

var subjects = [][]string{
	strings.Fields("the ship sails over a calm sea and its crew looks for whales near distant islands with white " +
		"birds above dark water"),
	strings.Fields("a compiler reads source code then writes fast programs for small machines whose memory holds " +
		"many tables of symbols"),
}

func (w writer) text(subject, n int) string {
	list := subjects[subject]
	out := make([]string, n)
	for i := range out {
		out[i] = list[w.random.IntN(len(list))]
	}
	return strings.Join(out, " ") + "."
}

func (w writer) clients(name string, n, subject int) (out []Client) {
	for i := range n {
		c := Client{ID: name + strconv.Itoa(i)}
		for range 3 {
			c.Texts = append(c.Texts, w.text(subject, 25))
		}
		out = append(out, c)
	}
	return out
}

func world(t *testing.T) Input {
	t.Helper()
	w := writer{rng.New(1, "judge test")}
	in := Input{Members: w.clients("member", 80, 0), Controls: w.clients("control", 60, 0), Delta: 1e-4, Seed: 1}
	for range 150 {
		in.Product = append(in.Product, w.text(0, 25))
		in.Public = append(in.Public, w.text(1, 25))
	}
	e, err := embedding.FitLatent(slices.Concat(in.Product, in.Public), embedding.LatentConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	in.Encoder = e
	return in
}

// TestPlantedLeak: where ten members' texts were copied into the synthetic set, each of them is found and told from chance;
// an honest product shows none above its controls.
func TestPlantedLeak(t *testing.T) {
	in := world(t)
	honest, err := Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(honest.Memory.Found)+len(honest.Memory.Copies) > 0 || honest.Memory.Runs[0].P < 0.01 {
		t.Errorf("an honest product: found %v, copies %v, runs %+v", honest.Memory.Found, honest.Memory.Copies,
			honest.Memory.Runs)
	}
	if ci := honest.Memory.NearerCI; ci[0] > 0.5 || ci[1] < 0.5 {
		t.Errorf("an honest product is nearer to members: %g, %v", honest.Memory.Nearer, ci)
	}
	for _, a := range honest.Membership {
		if a.Epsilon > 0 || a.AUC > 0.65 {
			t.Errorf("an honest product: %+v", a)
		}
	}

	leaking := in
	leaking.Product = slices.Clone(in.Product)
	for i := range 10 {
		leaking.Product[7*i] = "said: " + in.Members[3*i].Texts[1]
	}
	r, err := Judge(t.Context(), leaking)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range r.Memory.Found {
		if found = append(found, f.Client); f.Words != 25 || f.Expected >= expected ||
			!strings.Contains(strings.ToLower(leaking.Product[f.Product]), f.Text) {
			t.Errorf("found %+v", f)
		}
	}
	var copies []string
	for _, c := range r.Memory.Copies {
		copies = append(copies, c.Client)
	}
	for i := range 10 {
		for what, list := range map[string][]string{"run": found, "copy": copies} {
			if !slices.Contains(list, in.Members[3*i].ID) {
				t.Errorf("the %s of %s is not found: %v", what, in.Members[3*i].ID, list)
			}
		}
	}
	if len(found) != 10 || r.Memory.Runs[2].Members < 10 || r.Memory.Runs[2].P > 0.05 {
		t.Errorf("found %v; %+v", found, r.Memory.Runs)
	}
	if again, err := Judge(t.Context(), leaking); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("the same input gives another result (%v)", err)
	}

	// What public text has, too, is no leak.
	leaking.Public = append(slices.Clone(in.Public), leaking.Product...)
	if r, err = Judge(t.Context(), leaking); err != nil || len(r.Memory.Found)+len(r.Memory.Copies) > 0 {
		t.Errorf("found in public text: %v, %v (%v)", r.Memory.Found, r.Memory.Copies, err)
	}
}

// TestLeakBehindOthers: a leak is found behind a longer phrase that public text has, too, and behind as many words as half
// of the clients have; it is named by its row in the set, in which a text without words counts.
func TestLeakBehindOthers(t *testing.T) {
	in := world(t)
	phrase := strings.Repeat("the undersigned agrees to all terms of the board and ", 4) + "signs this"
	secret := "my sister keeps eleven grey donkeys behind an old mill in that valley and nobody who buys our cheese " +
		"knows how she found the first two"
	in.Product = append([]string{"", "– …"}, in.Product...)
	in.Product = append(in.Product, phrase, "so "+secret)
	in.Public = append(in.Public, phrase)
	in.Members[3].Texts = append(slices.Repeat(in.Members[3].Texts, 3), phrase, secret)
	r, err := Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Memory.Found; len(f) != 1 || f[0].Client != in.Members[3].ID || f[0].Text != secret ||
		f[0].Product != len(in.Product)-1 {
		t.Errorf("found %+v, want %q in row %d", f, secret, len(in.Product)-1)
	}
	for _, run := range r.Memory.Runs {
		if run.Members > 0 {
			t.Errorf("the groups are compared beyond their first %d words: %+v", r.Memory.WordsLooked, run)
		}
	}
}

// TestWordsOfAllRows: words are compared in texts of the whole set, of which the first are often public text.
func TestWordsOfAllRows(t *testing.T) {
	in := world(t)
	in.Product = append(slices.Clone(in.Public), in.Product...)
	in.Labels = append(slices.Repeat([]string{"public"}, len(in.Public)), slices.Repeat([]string{"written"}, 150)...)
	r, err := Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Attributes {
		if d := a.Divergence[TheProduct]; a.Name == "words" && (d < 0.1 || d > 0.5) {
			t.Errorf("half of the set is like the clients' texts, and its words diverge by %g", d)
		}
	}
}

// TestAttack: where all of the synthetic set is the members' own text, membership is guessed and the bound is above 0.
func TestAttack(t *testing.T) {
	in := world(t)
	in.Product = nil
	for _, c := range in.Members {
		in.Product = append(in.Product, c.Texts...)
	}
	r, err := Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Membership {
		if a.AUC < 0.99 || a.Epsilon < 1 {
			t.Errorf("%+v", a)
		}
	}
	if r.Memory.NearerCI[0] <= 0.5 {
		t.Errorf("the synthetic set is not nearer to members: %g, %v", r.Memory.Nearer, r.Memory.NearerCI)
	}
}

// TestLikeness: text of the clients' kind is like theirs, and text of another kind is not.
func TestLikeness(t *testing.T) {
	in := world(t)
	r, err := Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Likeness{}
	for _, l := range r.Likeness {
		by[l.Name] = l
	}
	product, public, others := by[TheProduct], by[PublicText], by[RealClients]
	if product.Mauve < others.Mauve-0.1 || public.Mauve > 0.2 || product.Precision < 0.7 || public.Precision > 0.05 ||
		public.Frechet < 5*product.Frechet {
		t.Errorf("product %+v\npublic %+v\nothers %+v", product, public, others)
	}
	for _, a := range r.Attributes {
		if a.Name == "words" && (a.Divergence[PublicText] < 0.8 || a.Divergence[TheProduct] > 0.1) {
			t.Errorf("%+v", a)
		}
	}
	if r.GroupsAUC > 0.65 {
		t.Errorf("members and controls are told apart: %g", r.GroupsAUC)
	}
	share := 0.0
	for _, topic := range r.Topics {
		share += topic.Product
	}
	if share < 0.999 || share > 1.001 {
		t.Errorf("the topics hold %g of the synthetic set", share)
	}
}

// TestPatternsAndCanaries: personal data in the synthetic set is counted, and what only members have is told from what others
// have, too.
func TestPatternsAndCanaries(t *testing.T) {
	in := world(t)
	in.Product = append(in.Product, "Write to anna.berg@example.org or call +49 30 1234567 today.",
		"Pay to DE89 3704 0044 0532 0130 00 by 4111 1111 1111 1111.",
		"On 2024-03-05 the year 1999 2001 was no number.", "See https://example.org/a?b=c, please; host 192.168.0.17.",
		"my secret is swordfish under the old oak tree")
	in.Members[4].Texts[0] = "I am anna.berg@example.org and this is my mail address."
	in.Members[5].Texts[0], in.Controls[5].Texts[0] = "https://example.org/a?b=c", "https://example.org/a?b=c"
	in.Canaries, in.Names = []string{"My secret is swordfish!", "nothing of this was ever said"}, []string{"Anna Berg",
		"Swordfish"}
	r, err := Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Pattern{
		"mail addresses":    {Product: 1, Different: 1, Alone: []string{"anna.berg@example.org"}},
		"web addresses":     {Product: 1, Different: 1},
		"telephone numbers": {Product: 1, Different: 1},
		"payment cards":     {Product: 1, Different: 1},
		"IBANs":             {Product: 1, Different: 1},
		"IP addresses":      {Product: 1, Different: 1},
		"names of the list": {Product: 1, Different: 1},
	}
	for _, p := range r.Patterns {
		w := want[p.Name]
		if p.Product != w.Product || p.Different != w.Different || !slices.Equal(p.Alone, w.Alone) {
			t.Errorf("%s: %+v, want %+v", p.Name, p, w)
		}
	}
	if c := r.Canaries; len(c) != 2 || c[0].Run != 4 || c[0].Words != 4 ||
		in.Product[c[0].Product] != "my secret is swordfish under the old oak tree" || c[1].Run > 1 {
		t.Errorf("canaries %+v", c)
	}
}

// FuzzRuns: the longest run is one of both texts, and no longer one is.
func FuzzRuns(f *testing.F) {
	f.Add("a b c d e f g h i j", "x a b c d e f g h i k")
	f.Add("a a a a a a a a a a a", "a a a a a a a a a")
	f.Fuzz(func(t *testing.T, product, text string) {
		x := newIndex(vocabulary{}, []string{product})
		got, _ := x.longest([]string{text}, 1<<20, newIndex(x.words, nil))
		a, b, longest := words(product), words(text), 0
		for i := range a {
			for j := range b {
				n := 0
				for i+n < len(a) && j+n < len(b) && a[i+n] == b[j+n] {
					n++
				}
				longest = max(longest, n)
			}
		}
		if longest < leastRun {
			longest = 0
		}
		if got.Words != longest {
			t.Errorf("%q and %q: a run of %d words, want %d", product, text, got.Words, longest)
		}
		if raw, err := json.Marshal(got); err != nil || longest > 0 && !x.has(x.words.ids(got.Text, false)) {
			t.Errorf("%s (%v)", raw, err)
		}
	})
}
