package run

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/fedsim/audit"
	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/auditing"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/scoring"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestCTCL: clients count topics, then train the small model behind keywords; it writes each topic as often as was
// released. An interrupted run ends with the same bytes and charges. One ledger has both kinds of releases.
func TestCTCL(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Trainer.Select, c.Privacy.Epsilon = "ctcl", 3, "validation", 5000
	testworld.Set(&c, "fedavg.lora_rank=2", "fedavg.learning_rate=0.02", "fedavg.clip_norm=0.5")
	s, dir := trainedSession(t, c)
	sameInterrupted(t, c, dir, rounds.Stage{Name: rounds.StageCollect, Round: 1}, rounds.Stage{Name: rounds.StageCollect, Round: 2},
		rounds.Stage{Name: "measure", Round: 3})
	_, entries := testworld.Charges(t, dir)
	first, _ := scoring.TopicsAsked()
	if len(entries) != 3 || entries[0].Query != first || entries[1].Query == first || entries[0].Sigma != entries[2].Sigma {
		t.Errorf("charges %+v", entries)
	}
	sound(t, dir, 3)
	played(t, dir, auditing.Options{})
	r, err := release.Read(filepath.Join(rundir.Round(dir, 1), release.File))
	topics := s.topics.Keywords
	if err != nil || len(r.Sum) != len(topics)+scoring.RoundChecks || len(topics) != 2 {
		t.Fatalf("%d topics, %d values (%v)", len(topics), len(r.Sum), err)
	}
	product, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic))
	written, sum := map[string]float64{}, r.Sum[0]+r.Sum[1]
	for _, row := range product {
		written[row.Kind]++
	}
	for i, topic := range topics {
		if d := written[topic] - r.Sum[i]/sum*float64(len(product)); err != nil || len(product) != c.Synthetic.Texts || d > 1 || d < -1 {
			t.Errorf("topic %q: %g of %d texts, counts %v (%v)", topic, written[topic], len(product), r.Sum[:2], err)
		}
	}
	figures, err := rounds.ReadMetrics(dir)
	chosen, ok := rounds.Best(figures, configs.ValidationLoss)
	if began := figures[0].Get(configs.ValidationLoss + rounds.After); err != nil || !ok || began == nil || !(chosen.Value < *began) {
		t.Errorf("chosen %+v, began with %v (%v)", chosen, began, err)
	}
	e, err := s.Evaluate(t.Context(), evaluator.Options{})
	if err != nil || e.Result("ctcl") == nil || e.Result("ctcl").Texts == 0 {
		t.Errorf("the evaluation has %+v (%v)", e, err)
	}
	if _, err := reporting.Write(dir); err != nil {
		t.Error(err)
	}
	for set, want := range map[string]string{"trainer.rounds=1": "trainer.rounds", "downstream.length=120": "downstream.length",
		"fed.clients=30": "fed.clients"} {
		bad := c
		testworld.Set(&bad, set)
		into := filepath.Join(t.TempDir(), "run")
		if err := train(t.Context(), Options{Config: bad, Dir: into}); !fault.IsUser(err) || !strings.Contains(err.Error(), want) || exists(into) {
			t.Errorf("%s: %v", set, err)
		}
	}
	// Another question in round 1 than its own is found.
	file := filepath.Join(rundir.Round(dir, 1), release.File)
	testfile.Write(t, file, testfile.Read(t, filepath.Join(rundir.Round(dir, 2), release.File)))
	if r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected}); err != nil || r.Sound() {
		t.Errorf("a release of round 2 in round 1: %q (%v)", r.Problems, err)
	}
}

// TestTopicRows: what clients train on has the keywords in front, which do not count.
func TestTopicRows(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method = "ctcl"
	s := mustOpen(t, Options{Config: c, Dir: t.TempDir()})
	defer s.Close()
	_, encoder, err := rowsOf(c)
	if err != nil {
		t.Fatal(err)
	}
	line, text := s.topics.Line(0), "the cat sees the hat"
	led, plain := encoder.After([]string{line}, []string{text})[0], encoder.Encode([]string{text})[0]
	n := len(led.Tokens) - len(plain.Tokens)
	if !slices.Equal(led.Tokens[1:1+n], encoder.Tokenizer.Encode(line)) || !slices.Equal(led.Tokens[1+n:], plain.Tokens[1:]) ||
		led.Tokens[0] != plain.Tokens[0] || !slices.Equal(led.Labels[1+n:], plain.Tokens[1:]) ||
		slices.ContainsFunc(led.Labels[:1+n], func(l int32) bool { return l >= 0 }) {
		t.Errorf("%+v, without keywords %+v", led, plain)
	}
}
