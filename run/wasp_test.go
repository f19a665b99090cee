package run

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"popri/configs"
	"popri/fedsim/audit"
	"popri/fedsim/release"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/auditing"
	"popri/testkit/testworld"
)

// shownTexts is the number of texts that prompts show.
const shownTexts = 8

// wasped is a configuration of WASP in the tests' world, with two generators and three parts.
func wasped(t *testing.T) configs.Config {
	w := testworld.Shared(t)
	c := w.Config
	labelled(t, &c)
	c.Method, c.Trainer.Rounds, c.Synthetic.Texts = "wasp", 3, 61
	testworld.Set(&c, "wasp.generators="+w.Device, "wasp.votes=3")
	return c
}

// waspRow is a text of the synthetic set.
type waspRow struct {
	Text      string `parquet:"text"`
	Label     string `parquet:"label"`
	Generator string `parquet:"generator"`
}

// waspText is a text with its votes.
type waspText struct {
	Label  string  `parquet:"label"`
	Text   string  `parquet:"text"`
	Votes  float64 `parquet:"votes"`
	Far    float64 `parquet:"far_votes"`
	Copies int64   `parquet:"copies"`
	Bad    bool    `parquet:"bad"`
}

func productOf(t *testing.T, dir string) []waspRow {
	t.Helper()
	return rowsIn[waspRow](t, filepath.Join(dir, rundir.Synthetic))
}

// TestWASP: all parts are in the synthetic set with label and generator, there is a release less than parts, the audit finds
// it sound, and a run that is stopped gives the same.
func TestWASP(t *testing.T) {
	c := wasped(t)
	dir := trained(t, c)
	figures, err := rounds.ReadMetrics(dir)
	if err != nil || len(figures) != 2 {
		t.Fatalf("%d rounds (%v), want 2 before the last part", len(figures), err)
	}
	blank := 0.0
	for i, f := range figures {
		blank += *f.Get("blank")
		if n := *f.Get("samples") + blank; n != float64(61*(i+1)/3) {
			t.Errorf("round %d: %g texts, blank ones counted", i+1, n)
		}
	}
	product := productOf(t, dir)
	if n := len(product) + int(blank); n > 61 || n < 55 {
		t.Errorf("the synthetic set has %d texts and %g are blank", len(product), blank)
	}
	by, labels := map[string]int{}, map[string]int{}
	for _, p := range product {
		by[p.Generator]++
		labels[p.Label]++
		if strings.TrimSpace(p.Text) == "" || strings.Contains(p.Text, `"`) {
			t.Errorf("a text is %q", p.Text)
		}
	}
	if len(by) != 2 || len(labels) != 2 || labels["alive"] < 20 || labels["thing"] < 20 {
		t.Errorf("the synthetic set is by %v and has the labels %v", by, labels)
	}
	_, charges := testworld.Charges(t, dir)
	if len(charges) != 2 {
		t.Errorf("%d charges, want 2", len(charges))
	}
	vectors, free, err := auditing.RoundVectors(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	r, err := audit.Run(dir, audit.Options{Rounds: vectors, Expect: auditing.Expected})
	if err != nil || !r.Sound() || r.Releases != 2 || len(r.Noise) != 2 {
		t.Errorf("the audit: %v, %+v", err, r)
	}
	sameInterrupted(t, c, dir, rounds.Stage{Round: 1, Name: "generate"}, rounds.Stage{Round: 1, Name: "embed"},
		rounds.Stage{Round: 2, Name: "generate"})
}

// TestWASPWithoutNoise: with hardly any noise, the released counts are votes within labels, of the bound's norm for a
// client at most, and the good and bad texts are those with the most of them.
func TestWASPWithoutNoise(t *testing.T) {
	c := wasped(t)
	c.Privacy.Epsilon, c.Scoring.ClipNorm = 1e4, 100
	dir := trained(t, c)
	texts := rowsIn[waspText](t, filepath.Join(rundir.Round(dir, 2), rundir.Selection))
	for _, label := range []string{"alive", "thing"} {
		least, most, good, bad, near, far := 1e9, -1e9, 0, 0, 0.0, 0.0
		for _, x := range texts {
			if x.Label != label {
				continue
			}
			near, far = near+x.Votes, far+x.Far
			if x.Bad {
				bad++
			}
			if x.Copies > 0 {
				good++
				least = min(least, x.Votes)
			} else {
				most = max(most, x.Votes)
			}
		}
		// Each text has 1 + 1/2 + 1/4 votes of each kind.
		if good != shownTexts || bad != shownTexts || most > least || near < 10 || far < near-10 || far > near+10 {
			t.Errorf("%s: %d good texts with %g votes or more, others with %g or less, %d bad; %g near and %g far votes",
				label, good, least, most, bad, near, far)
		}
	}
}

// TestWASPAblations: one vote, no contrast, no weights and one generator run, and generators without weights write as
// much.
func TestWASPAblations(t *testing.T) {
	for name, set := range map[string][]string{
		"one vote":                {"wasp.votes=1"},
		"no contrast, no weights": {"wasp.contrast=false", "wasp.weights=false"},
		"one generator":           {"wasp.generators=[]"},
	} {
		t.Run(name, func(t *testing.T) {
			c := wasped(t)
			c.Synthetic.Texts = 60
			testworld.Set(&c, set...)
			dir := trained(t, c)
			by := map[string]int{}
			for _, p := range productOf(t, dir) {
				by[p.Generator]++
			}
			if alone := name == "one generator"; (len(by) == 1) != alone || len(by) > 2 {
				t.Errorf("the synthetic set is by %v", by)
			}
			for name, n := range by {
				if weights, _ := c.Get("wasp.weights"); weights == false && (n > 30 || n < 25) {
					t.Errorf("%s wrote %d of 60 texts", name, n)
				}
			}
		})
	}
}

// TestWASPLikeAugPE: with one vote, no contrast and no weights, texts are selected as Aug-PE does it. The near votes
// are one for each client's text, within its label; prompts show good texts alone, the most voted for of the label; and
// the generators write as much as each other. A server that writes sees the prompts.
func TestWASPLikeAugPE(t *testing.T) {
	var mutex sync.Mutex
	var prompts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Prompt string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		mutex.Lock()
		defer mutex.Unlock()
		prompts = append(prompts, q.Prompt)
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"finish_reason": "stop",
			"text": fmt.Sprintf("the quiet boat number %d", len(prompts))}}})
	}))
	defer server.Close()
	c := wasped(t)
	c.Privacy.Epsilon, c.Scoring.ClipNorm, c.Synthetic.Texts = 1e4, 3, 60 // clients have three texts
	testworld.Set(&c, "wasp.generators="+server.URL+"#large", "wasp.votes=1", "wasp.contrast=false", "wasp.weights=false")
	dir := trained(t, c)
	private, err := rows.Read[struct {
		Split string `parquet:"split"`
		Label string `parquet:"label"`
	}](c.Data.Private)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{} // what prompts may show, marked
	for round := 1; round <= 2; round++ {
		texts := rowsIn[waspText](t, filepath.Join(rundir.Round(dir, round), rundir.Selection))
		for _, label := range []string{"alive", "thing"} {
			left, good, least, most := 0.0, 0, math.Inf(1), math.Inf(-1)
			for _, x := range private {
				if x.Split == "train" && x.Label == label {
					left++
				}
			}
			for _, x := range texts {
				if x.Label != label {
					continue
				}
				if left -= math.Round(x.Votes); math.Abs(x.Votes-math.Round(x.Votes)) > .4 {
					t.Errorf("round %d: a text has %g votes", round, x.Votes)
				}
				if x.Copies > 0 {
					good, least, shown[sampling.Marked(x.Text)] = good+1, min(least, x.Votes), true
				} else {
					most = max(most, x.Votes)
				}
			}
			if left != 0 || good != shownTexts || most > least {
				t.Errorf("round %d, %s: %g texts of clients did not vote; %d texts with %g votes or more are good, "+
					"others have up to %g", round, label, left, good, least, most)
			}
		}
	}
	quoting := 0
	for _, prompt := range prompts {
		if strings.Contains(prompt, "A bad text is:") || strings.Contains(prompt, "A good text is:") {
			t.Errorf("a prompt has contrast:\n%s", prompt)
		}
		for line := range strings.Lines(prompt) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "The text is: "); ok {
				if quoting++; !shown[text] {
					t.Errorf("a prompt shows %s, which is not among the most voted for", text)
				}
			}
		}
	}
	if len(prompts) != 30 || quoting == 0 {
		t.Errorf("the server has %d of 60 prompts, with %d texts", len(prompts), quoting)
	}
}

// TestWASPByPublicVotes: nothing is asked and nothing charged where public texts or the written ones vote.
func TestWASPByPublicVotes(t *testing.T) {
	t.Run("public", func(t *testing.T) { withoutClients(t, "public") })
	t.Run("written", func(t *testing.T) { withoutClients(t, "written") })
}

func withoutClients(t *testing.T, voters string) {
	c := wasped(t)
	testworld.Set(&c, "wasp.votes_from="+voters)
	dir := trained(t, c)
	if _, charges := testworld.Charges(t, dir); len(charges) != 0 || rundir.Has(rundir.Round(dir, 1), release.File) {
		t.Errorf("%d charges", len(charges))
	}
	r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected,
		Rounds: func(int) (audit.Round, error) { return audit.Round{}, fmt.Errorf("not here") }})
	if err != nil || !r.Sound() || r.Epsilon != 0 {
		t.Errorf("the audit: %v, %+v", err, r)
	}
	if len(productOf(t, dir)) < 55 {
		t.Error("the synthetic set is too small")
	}
}

// TestWASPWithServer: a server that gives completions writes, too, and a run that continues does not ask it again for
// finished parts.
func TestWASPWithServer(t *testing.T) {
	var asked, refusing atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string
			Prompt   string
			Messages []struct{ Content string }
			Stop     []string
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Model != "large" {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		if refusing.Load() > 0 {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		n := asked.Add(1)
		choice := map[string]any{"finish_reason": "stop", "text": fmt.Sprintf("the quiet boat number %d", n)}
		switch {
		case r.URL.Path == "/v1/chat/completions" && len(q.Messages) == 1 &&
			!strings.HasSuffix(q.Messages[0].Content, `"`):
			choice = map[string]any{"finish_reason": "stop",
				"message": map[string]any{"content": fmt.Sprintf("%q\nas you like", choice["text"])}}
		case r.URL.Path != "/v1/completions" || !strings.HasSuffix(q.Prompt, `"`) || !slices.Contains(q.Stop, `"`):
			http.Error(w, "what is this?", http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{choice}})
	}))
	defer server.Close()
	for _, chat := range []bool{false, true} {
		asked.Store(0)
		c := wasped(t)
		if c.Generate.Chat = chat; chat {
			c.Generate.TemplateHeader, c.Generate.TemplateItem = "Write.", "Text {i}"
		}
		testworld.Set(&c, "wasp.generators="+server.URL+"#large")
		dir := trained(t, c)
		theirs := 0
		for _, p := range productOf(t, dir) {
			if p.Generator == "large" {
				theirs++
				if !strings.HasPrefix(p.Text, "the quiet boat number ") || strings.Contains(p.Text, "like") {
					t.Errorf("a text of the server is %q", p.Text)
				}
			}
		}
		if theirs == 0 || int64(theirs) != asked.Load() {
			t.Errorf("the synthetic set has %d texts of a server that was asked for %d", theirs, asked.Load())
		}
		refusing.Store(1)
		if err := train(t.Context(), Options{Config: c, Dir: t.TempDir()}); err == nil ||
			!strings.Contains(err.Error(), "answers 403") {
			t.Errorf("a server that refuses: %v", err)
		}
		refusing.Store(0)
	}
}

// TestWASPMistakes: what such a run cannot do is said by key before it begins.
func TestWASPMistakes(t *testing.T) {
	for want, change := range map[string]func(*configs.Config){
		"generate.by_label":           func(c *configs.Config) { c.Generate.ByLabel = false },
		"trainer.rounds":              func(c *configs.Config) { c.Trainer.Rounds = 1 },
		"wasp.words":                  func(c *configs.Config) { testworld.Set(c, "wasp.words=pos") },
		"wasp.attributes":             func(c *configs.Config) { testworld.Set(c, `wasp.attributes=[" "]`) },
		"fed.clients":                 func(c *configs.Config) { c.Fed.Clients = 100 },
		"holds \"https://x\"":         func(c *configs.Config) { testworld.Set(c, "wasp.generators=https://x") },
		"holds \"" + "same" + "\"":    func(c *configs.Config) { testworld.Set(c, "wasp.generators=same,same") },
		"wasp.generators":             func(c *configs.Config) { testworld.Set(c, "wasp.generators=no/folder") },
		"wasp.votes_from: is \"all\"": func(c *configs.Config) { testworld.Set(c, "wasp.votes_from=all") },
	} {
		c := wasped(t)
		change(&c)
		if _, err := Open(t.Context(), Options{Config: c, Dir: t.TempDir()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
}
