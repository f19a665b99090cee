package run

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/sampling"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// labelled makes the run of a configuration of the shared world one of labelled texts, which small models learn to give
// their label.
func labelled(t *testing.T, c *configs.Config) {
	w := testworld.Shared(t)
	c.Data.Private, c.Data.Public = w.LabelledPrivate, w.LabelledPublic
	c.Generate.ByLabel, c.Downstream.Task = true, configs.Classification
}

// TestLabelledRuns: with every method, each row of the synthetic set has a label, public texts their own, and the evaluation
// compares classifiers. Labels of written texts come in the proportion of those that prompts could quote.
func TestLabelledRuns(t *testing.T) {
	w, runs := testworld.Shared(t), 0
	for _, m := range methods.All {
		for _, once := range []bool{false, true} {
			if once && m.Name != configs.Default().Method {
				continue
			}
			name := m.Name
			c := w.Config
			if once {
				name += " asked once"
				testworld.AskOnce(&c)
			}
			labelled(t, &c)
			c.Method = m.Name
			if err := c.Validate(); err != nil { // clients train a language model, or texts have no label
				if text := err.Error(); !strings.Contains(text, "generate.by_label") && !strings.Contains(text, "downstream.task") {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			runs++
			c.Synthetic.Texts = 300
			c.Downstream.Steps = 80
			t.Run(name, func(t *testing.T) {
				s, dir := trainedSession(t, c)
				product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
				public, alive, written := 0, 0, 0
				for i, r := range product {
					switch {
					case r.Label != "alive" && r.Label != "thing":
						t.Fatalf("row %d has the label %q", i, r.Label)
					case r.Finish != sampling.Public:
						written++
						alive += map[string]int{"alive": 1}[r.Label]
					default:
						if public++; r.Label != testworld.Label(r.Text) {
							t.Errorf("the public text %q has the label %q", r.Text, r.Label)
						}
					}
				}
				if share := float64(alive) / float64(max(1, written)); written > 100 && math.Abs(share-0.5) > 0.2 {
					t.Errorf("%.2f of %d written texts are of half of the public text", share, written)
				}
				if once && (public == 0 || written == 0) || m.Name == "public_selection" && public == 0 {
					t.Errorf("the synthetic set has %d public and %d written texts", public, written)
				}

				if !once && !slices.Contains([]string{"private_evolution", "public_selection"}, m.Name) {
					return // what follows sees the synthetic set's rows alone
				}
				e, err := s.Evaluate(t.Context(), evaluator.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if e.Task != configs.Classification || e.Labels != 2 {
					t.Errorf("%+v", e)
				}
				for _, key := range []string{downstream.Public, evaluation.KeyUntuned, m.Name, downstream.Private} {
					r := e.Result(key)
					if r == nil || r.MacroF1 == nil || r.AccuracyCI == nil || r.MacroF1CI == nil || r.Perplexity != 0 ||
						r.Texts == 0 {
						t.Errorf("%s: %+v", key, r)
					}
				}
				private, zero := e.Result(downstream.Private), e.Result(downstream.Public)
				if private.Accuracy < 0.9 {
					t.Errorf("trained on the clients' texts: %.2f", private.Accuracy)
				}
				if gap := e.Result(m.Name).GapClosed != nil; gap != (private.Accuracy > zero.Accuracy) ||
					gap != (e.NoGap() == "") {
					t.Errorf("from %.2f to %.2f there is a gap: %v; %q", zero.Accuracy, private.Accuracy, gap,
						e.NoGap())
				}
				if e.Result(evaluation.KeyPublicAll) != nil || e.Verdict() == "" {
					t.Errorf("all public text is the ε = 0 point, and what wins is said: %q", e.Verdict())
				}
				page, err := reporting.Write(dir)
				if err != nil {
					t.Fatal(err)
				}
				content := testfile.Read(t, page)
				for text, want := range map[string]bool{"Macro F1": true, "of 2 labels": true, "Perplexity</th>": false,
					"next tokens": false} {
					if strings.Contains(string(content), text) != want {
						t.Errorf("the report has %q: %v", text, !want)
					}
				}

				// The product alone, judged by popri eval --synthetic, gets the same figures.
				judge := c
				alone, err := evaluator.Texts(t.Context(), judge, filepath.Join(dir, rundir.Synthetic),
					evaluator.TextsOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if a, b := alone.Result(evaluation.KeyText), e.Result(m.Name); a.Accuracy != b.Accuracy ||
					*a.MacroF1 != *b.MacroF1 ||
					alone.Result(downstream.Public).Accuracy != e.Result(downstream.Public).Accuracy {
					t.Errorf("alone: %+v, in its run: %+v", a, b)
				}
			})
		}
	}
	if runs < len(methods.All)/2 {
		t.Errorf("%d runs of %d methods have labels", runs, len(methods.All))
	}
}

// TestLabelledRunKilled: a run with labels that was killed ends with the bytes of one that was not.
func TestLabelledRunKilled(t *testing.T) {
	for _, method := range []string{"popri", "private_evolution"} {
		t.Run(method, func(t *testing.T) {
			killed(t, func(c *configs.Config) {
				if c.Method = method; method == "popri" {
					testworld.AskOnce(c)
				}
				labelled(t, c)
			}, 3)
		})
	}
}

// TestLabelMistakes: missing labels end a run before it begins; labels that only clients have are counted and do not.
func TestLabelMistakes(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	labelled(t, &c)
	c.Generate.ByLabel = false
	if _, err := Open(t.Context(), Options{Config: c, Dir: t.TempDir()}); err == nil || !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "generate.by_label=true") {
		t.Errorf("classification without labelled prompts: %v", err)
	}

	p, err := clients.Read(w.LabelledPrivate)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Clients { // of each split, the first client has another label
		x := &p.Clients[i]
		if strings.HasSuffix(x.ID, "-00") {
			x.Label, x.Labels = map[clients.Split]string{clients.Train: "own", clients.Validation: "held",
				clients.Test: "held"}[x.Split], nil
		}
	}
	c.Generate.ByLabel, c.Data.Private = true, filepath.Join(t.TempDir(), "odd.parquet")
	if err := clients.Write(c.Data.Private, p); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.jsonl")
	testfile.Write(t, text, "{\"text\": \"the cat sees\", \"label\": \"alive\"}\n{\"text\": \"the house\", \"label\": \"thing\"}\n")
	e, err := evaluator.Texts(t.Context(), c, text, evaluator.TextsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Labels != 3 || len(e.Notes) < 2 ||
		!strings.HasPrefix(e.Notes[0],
			"3 of 24 test texts have labels that no text of \"public text (ε = 0)\" has (1 of 3 labels)") {
		t.Errorf("%d labels, notes %q", e.Labels, e.Notes)
	}
	if r := e.Result(downstream.Private); r.Skipped != 3 {
		t.Errorf("%d train texts with a label of their own were left out", r.Skipped)
	}
	plain := filepath.Join(t.TempDir(), "synthetic.parquet")
	if err := rows.Write(plain, []sampling.Row{{}, {Text: "one", Finish: "stop"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := evaluator.Texts(t.Context(), c, plain, evaluator.TextsOptions{}); err == nil ||
		!strings.Contains(err.Error(), "row 1 has no label") {
		t.Errorf("a product without labels: %v", err)
	}
	c.Data.Public = "godoc" // no ε = 0 point
	if e, err = evaluator.Texts(t.Context(), c, text, evaluator.TextsOptions{}); err != nil ||
		e.Result(downstream.Public) != nil {
		t.Errorf("without public text: %+v (%v)", e, errors.Unwrap(err))
	}
}

// TestTrainLabelsStayPrivate: other labels of train clients change neither the synthetic set nor, without the ε = ∞ row, a
// figure.
func TestTrainLabelsStayPrivate(t *testing.T) {
	w := testworld.Shared(t)
	p, err := clients.Read(w.LabelledPrivate)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Clients {
		if x := &p.Clients[i]; x.Split == clients.Train {
			x.Label, x.Labels = "zzz", nil
		}
	}
	other := filepath.Join(t.TempDir(), "other.parquet")
	if err := clients.Write(other, p); err != nil {
		t.Fatal(err)
	}
	var products [2][]sampling.Row
	var results [2]*evaluation.Outcome
	for i, private := range []string{w.LabelledPrivate, other} {
		c := w.Config
		testworld.AskOnce(&c)
		labelled(t, &c)
		c.Data.Private, c.Eval.ReferencePrivate = private, false
		dir := trained(t, c)
		var err error
		if products[i], err = rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic)); err != nil {
			t.Fatal(err)
		}
		if results[i], err = evaluator.Texts(t.Context(), c, filepath.Join(dir, rundir.Synthetic),
			evaluator.TextsOptions{}); err != nil {
			t.Fatal(err)
		}
		for k := range results[i].Results { // the folder's name
			results[i].Results[k].Name = ""
		}
	}
	if !reflect.DeepEqual(products[0], products[1]) {
		t.Error("the synthetic set follows the labels of train clients")
	}
	a, _ := json.Marshal(results[0])
	b, _ := json.Marshal(results[1])
	if string(a) != string(b) || strings.Contains(string(b), "zzz") {
		t.Errorf("figures follow the labels of train clients:\n%s\n%s", a, b)
	}
}
