package run

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/dpo"
	"popri/fedsim"
	"popri/fedsim/audit"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
	"popri/model/embedding"
	"popri/run/auditing"
	"popri/run/reporting"
	"popri/scoring"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestAskedOnce: a run that asks once has one charge and one release, with the noise of a single round, whatever the
// number of rounds; the public texts that it quotes and publishes are the ones that the clients' texts resemble.
func TestAskedOnce(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds = 3
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	_, entries := testworld.Charges(t, dir)
	rounds, err := rounds.ReadMetrics(dir)
	if err != nil || len(rounds) != 3 || len(entries) != 1 || entries[0].Query != "mean/full+1024" {
		t.Fatalf("%d rounds, charges %+v (%v)", len(rounds), entries, err)
	}
	stages, seconds, err := reporting.Shared(dir)
	if err != nil || len(stages) < 5 || len(seconds) != 3 {
		t.Fatalf("stages %+v, rounds %v (%v)", stages, seconds, err)
	}
	for _, s := range stages {
		if s.Name == "collect" {
			t.Errorf("a page has the time of what reads train clients' texts: %+v", s)
		}
	}
	each, everyRound := w.Config, t.TempDir()
	each.Trainer.Rounds = 3
	mustTrain(t, Options{Config: each, Dir: everyRound})
	// Values of 8 bytes go to the server; embeddings, of 4 bytes a value, come from it.
	answers := int64(3 * each.Generate.Prompts * each.Generate.Samples)
	for run, want := range map[string][2]int64{dir: {8 * (16 + 1024), 4 * 16},
		everyRound: {8 * answers, 4 * answers * 8}} {
		cost, err := reporting.CostOf(run)
		if err != nil || cost.Rounds != 3 || [2]int64{cost.Sent, cost.Received} != want || !(cost.Server > 0) ||
			!(cost.Client > 0) || cost.Client > cost.Server {
			t.Errorf("%+v, want %v bytes (%v)", cost, want, err)
		}
	}
	if _, three := testworld.Charges(t, everyRound); len(three) != 3 || !(entries[0].Sigma < 0.6*three[0].Sigma) {
		t.Errorf("asked once with noise %g, in each round with %+v", entries[0].Sigma, three)
	}
	for i, r := range rounds {
		v := r.Values
		if v["epsilon"] != rounds[0].Values["epsilon"] || !(v["distance"] > 0) || v["clients"] != 30 {
			t.Errorf("round %d: %v", i+1, v)
		}
		if has := rundir.Has(rundir.Round(dir, i+1), release.File); has != (i == 0) {
			t.Errorf("round %d has a release: %v", i+1, has)
		}
	}

	chosen, err := target.Read(dir)
	if err != nil || len(chosen) != 40 || math.Abs(float64(chosen[14].Copies)/float64(chosen[15].Copies)-3) > 0.02 {
		t.Fatalf("%d texts selected (%v)", len(chosen), err)
	}
	like := 0
	for i, x := range chosen {
		if strings.Contains(x.Text, "before the storm") { // as clients' texts end
			like++
		}
		if i > 0 && x.Relevance > chosen[i-1].Relevance {
			t.Errorf("text %d is more relevant than the one before", i)
		}
	}
	if like < 30 {
		t.Errorf("%d of 40 selected texts resemble the clients'", like)
	}
	prompts := rowsIn[sampling.PromptRow](t, filepath.Join(rundir.Round(dir, 2), "prompts.parquet"))
	texts := datasets.Strings(target.Texts(chosen))
	for _, p := range prompts {
		for _, line := range strings.Split(strings.TrimSpace(p.Text), "\n") {
			if line != "" && !slices.Contains(texts, line) {
				t.Errorf("a prompt quotes %q", line)
			}
		}
	}
	product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
	if len(product) != 30+c.Synthetic.Texts {
		t.Fatalf("%d texts in the synthetic set", len(product))
	}
	for i, row := range product {
		if public := row.Finish == sampling.Public; public != (i < 30) || public && !slices.Contains(texts, row.Text) {
			t.Errorf("row %d: %+v", i, row)
		}
	}

	if r := sound(t, dir, 1); len(r.Noise) != 1 || r.Noise[0].Freedom != target.Checks {
		t.Errorf("the audit: noise %+v", r.Noise)
	}
	page, err := reporting.Of(dir)
	if err != nil || page.Privacy.Planned != 1 || page.Privacy.Rounds != 1 || len(page.Rounds) != 3 ||
		page.Interrupted != "" {
		t.Errorf("the report: %d of %d releases, %d rounds, %q (%v)", page.Privacy.Rounds, page.Privacy.Planned,
			len(page.Rounds), page.Interrupted, err)
	}
}

// TestForm: form and words of the clients' texts are in the one release, for its one charge, which is audited as any other;
// what it reveals is in the run's folder and the report; and a run that was killed continues to the same bytes.
func TestForm(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	c.Scoring.Form, c.Scoring.Words = 0.5, 1
	want := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: want})
	_, entries := testworld.Charges(t, want)
	if len(entries) != 1 || entries[0].Query != "mean/full+1024" {
		t.Errorf("charges %+v, want one for the mean", entries)
	}
	answer, err := release.Read(filepath.Join(rundir.Round(want, 1), release.File))
	if err != nil || len(answer.Sum) != c.Scoring.Dim+len(embedding.FormMeasures)+embedding.WordsDim+target.Checks {
		t.Errorf("%d values are released (%v)", len(answer.Sum), err)
	}
	var found struct {
		Measures []target.Measured `json:"measures"`
	}
	if err := atomicfile.ReadJSON(filepath.Join(rundir.Round(want, 1), rundir.Form), &found); err != nil ||
		len(found.Measures) != len(embedding.FormMeasures) {
		t.Errorf("%d measures are stored (%v)", len(found.Measures), err)
	}
	audited, err := auditing.Runs([]string{want},
		auditing.Options{Game: fedsim.Game{Trials: 400, Confidence: 0.999, NoiseFactor: 1}})
	if err != nil || audited.Verdict() != nil || audited.Runs[0].Canary == nil || len(audited.Runs[0].Noise) != 1 ||
		audited.Runs[0].Noise[0].Freedom != target.Checks {
		t.Errorf("the audit: %+v (%v)", audited.Runs, err)
	}
	page, err := reporting.Of(want)
	if err != nil || !slices.ContainsFunc(page.Privacy.Statement,
		func(s string) bool { return strings.Contains(s, "measures of form") }) {
		t.Errorf("the report says %q (%v)", page.Privacy.Statement, err)
	}
	sameInterrupted(t, c, want, rounds.Stage{Name: "generate", Round: 2}, rounds.Stage{Name: "pairs", Round: 2})
}

// TestStyle: where the clients write in capitals, so do the public and the written rows of the synthetic set.
func TestStyle(t *testing.T) {
	w := testworld.Shared(t)
	type row struct {
		Client string `parquet:"client_id"`
		Split  string `parquet:"split"`
		Text   string `parquet:"text"`
	}
	texts := rowsIn[row](t, w.Private)
	for i := range texts {
		texts[i].Text = strings.ToUpper(texts[i].Text)
	}
	c := w.Config
	testworld.AskOnce(&c)
	c.Scoring.Form, c.Privacy.Epsilon, c.Generate.Quote, c.Synthetic.Kept = 0.5, 1000, "public", 0.5
	c.Data.Private = filepath.Join(t.TempDir(), "capitals.parquet")
	if err := rows.Write(c.Data.Private, texts); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	var form policy.Form
	if err := atomicfile.ReadJSON(filepath.Join(rundir.Round(dir, 1), rundir.Form), &form); err != nil ||
		form.Style != "in capitals" {
		t.Fatalf("the style is %q (%v)", form.Style, err)
	}
	prompts := rowsIn[sampling.PromptRow](t, filepath.Join(rundir.Round(dir, 1), rundir.Prompts))
	if len(prompts) == 0 {
		t.Fatalf("%d prompts", len(prompts))
	}
	for _, p := range prompts {
		if p.Text != strings.ToUpper(p.Text) {
			t.Fatalf("a prompt quotes %q", p.Text)
		}
	}
	product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
	kinds := map[bool]int{}
	for _, r := range product {
		if kinds[r.Finish == sampling.Public]++; r.Text != strings.ToUpper(r.Text) {
			t.Fatalf("a row of the synthetic set (%s): %q", r.Finish, r.Text)
		}
	}
	if kinds[true] == 0 || kinds[false] == 0 {
		t.Errorf("the synthetic set has %d public and %d written rows", kinds[true], kinds[false])
	}
}

// TestAskedOnceWithoutRelease: rounds after the first need no release of their own, but the first one's.
func TestAskedOnceWithoutRelease(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	testfile.Remove(t, filepath.Join(rundir.Round(dir, 1), release.File))
	r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected})
	if err != nil || r.Sound() {
		t.Errorf("the audit finds nothing without the release (%v)", err)
	}
}

// TestPerText: each text of a client answers, by a vote or by clipped cosines, and the run continues as any other.
func TestPerText(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.Set(&c, "scoring.objective=similarity", "scoring.denoise=none", "scoring.length_regression=false",
		"scoring.clip_cosine=0.25")
	samples := c.Generate.Prompts * c.Generate.Samples
	for release, of := range map[string]struct {
		query string
		scale float64
	}{"votes": {"votes/l2/1/total+256", 1}, "clipped": {"cosine/clipped/0.25+256", 4 / math.Sqrt(float64(samples))}} {
		c.Scoring.Release = release
		perText(t, c, of.query, of.scale, samples)
	}
}

// perText checks that the scores are the clients' mean answers in the unit of a text, and the audit of the run.
func perText(t *testing.T, c configs.Config, query string, scale float64, samples int) {
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	answer, err := release.Read(filepath.Join(rundir.Round(dir, 2), release.File))
	if err != nil || answer.Query != query || len(answer.Sum) != samples+scoring.RoundChecks {
		t.Fatalf("%d values of %q (%v)", len(answer.Sum), answer.Query, err)
	}
	pairs, err := dpo.ReadPairs(filepath.Join(rundir.Round(dir, 2), rundir.Pairs))
	if err != nil || len(pairs) == 0 {
		t.Fatalf("%d pairs (%v)", len(pairs), err)
	}
	for _, p := range pairs {
		at := p.PromptIndex*c.Generate.Samples + p.ChosenIndex
		if want := answer.Sum[at] / float64(answer.Clients) / scale; math.Abs(p.ChosenScore-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("sample %d has the score %g, released was %g", at, p.ChosenScore, want)
		}
	}
	if r := sound(t, dir, 2); len(r.Noise) != 2 || len(r.NoiseUntested) > 0 {
		t.Errorf("the audit: noise %+v, untested %q", r.Noise, r.NoiseUntested)
	}
}

// TestPatience: rounds that do not move the samples nearer end the run, which is complete then, also for a process
// that resumes it.
func TestPatience(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Trainer.Select, c.Trainer.Patience = 8, "distance", 2
	c.Optimizer.LearningRate = 1e-12
	dir := t.TempDir()
	for _, o := range []Options{{Config: c, Dir: dir}, {Dir: dir, Resume: true}} {
		mustTrain(t, o)
		if done, err := rounds.Latest(dir); err != nil || done < 3 || done == 8 || !rundir.Has(dir, rundir.Synthetic) {
			t.Fatalf("%d rounds (%v)", done, err)
		}
	}
	page, err := reporting.Of(dir)
	if err != nil || page.Interrupted != "" || !strings.Contains(page.Convergence, "(trainer.patience)") {
		t.Errorf("the report: interrupted %q, %q (%v)", page.Interrupted, page.Convergence, err)
	}
	c.Trainer.Select = "last"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "trainer.patience") {
		t.Errorf("patience without a figure: %v", err)
	}
}
