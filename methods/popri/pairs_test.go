package popri

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/dpo"
	"popri/fedsim/release"
	stored "popri/internal/rows"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/model/tokenizer"
	"popri/scoring"
	"popri/show/series"
)

// samplesOf makes J samples for each of n prompts, each with a text of its own.
func samplesOf(n, j int) (prompts []sampling.Prompt, rows []sampling.Row) {
	for i := range n {
		prompts = append(prompts, sampling.Prompt{Text: fmt.Sprintf("prompt %d", i), IDs: []int32{1, int32(i)}})
		for k := range j {
			rows = append(rows, sampling.Row{Prompt: int64(i), Sample: int64(k), Text: fmt.Sprintf("%d/%d", i, k),
				IDs: []int32{int32(10*i + k)}})
		}
	}
	return prompts, rows
}

func plainMethod(j, rank int) *Method {
	t := &Method{Policy: &policy.Policy{}}
	t.Config.Generate = configs.Generate{Samples: j}
	t.Config.DPO.RejectedRank = rank
	t.Config.Scoring = configs.Scoring{Normalize: "none", ClipNorm: 1, Denoise: "none"}
	return t
}

// pairsOf reads the release and makes the pairs, as a round does.
func pairsOf(m *Method, dir string, prompts []sampling.Prompt, rows []sampling.Row, vectors embedding.Matrix,
	answer *release.Release, figures *series.Round) ([]dpo.Pair, error) {
	r := &rounds.Round{Number: figures.Number, Dir: dir, Figures: figures}
	c := policy.Candidates{Prompts: prompts, Rows: rows, Vectors: vectors}
	if vectors.Rows == 0 { // any will do
		c.Vectors = embedding.NewMatrix(len(rows), 1)
		for i := range c.Vectors.Data {
			c.Vectors.Data[i] = 1
		}
	}
	asked := &policy.EachRound{Env: &m.Env}
	read, err := asked.Reread(c, answer)
	if err != nil {
		return nil, err
	}
	scores, err := m.Scores(r, c, read)
	if err != nil {
		return nil, err
	}
	return m.pairs(r, c, scores)
}

// quoting makes a prompter of a few public texts.
func quoting(t *testing.T, texts ...string) *sampling.Prompter {
	t.Helper()
	tok, err := tokenizer.TrainBPE(slices.Values(texts),
		tokenizer.TrainOptions{VocabSize: 300, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	var public []datasets.Text
	for _, text := range texts {
		public = append(public, datasets.Text{Text: text})
	}
	p, err := sampling.NewPrompter(tok, configs.Generate{Examples: 1}, configs.Data{MaxTokens: 50}, public, 200, 10)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPairs(t *testing.T) {
	prompts, rows := samplesOf(3, 4)
	rows[4].Text = rows[7].Text // prompt 1: two alike, so that three are left
	rows[9].Text = ""           // prompt 2: the best is an end token alone
	answer := &release.Release{Clients: 10, Sum: []float64{
		1, 4, 3, 2, // best 1, then 2, 3, 0
		9, 1, 2, 9, // 3 repeats 0: best 0, then 2, 1
		1, 9, 2, 3}}
	m := series.NewRound(0)
	dir := t.TempDir()
	tr := plainMethod(4, 3)
	pairs, err := pairsOf(tr, dir, prompts, rows, embedding.Matrix{}, answer, m)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		prompt, chosen, rejected int
		scores                   [2]float64
	}{{0, 1, 3, [2]float64{0.4, 0.2}}, {1, 0, 1, [2]float64{0.9, 0.1}}}
	if len(pairs) != len(want) {
		t.Fatalf("%d pairs, want %d: %+v", len(pairs), len(want), pairs)
	}
	for i, w := range want {
		p := pairs[i]
		chosen, rejected := rows[4*w.prompt+w.chosen], rows[4*w.prompt+w.rejected]
		if p.PromptIndex != w.prompt || p.ChosenIndex != w.chosen || p.RejectedIndex != w.rejected ||
			p.ChosenScore != w.scores[0] || p.RejectedScore != w.scores[1] ||
			p.ChosenText != chosen.Text || p.RejectedText != rejected.Text ||
			!reflect.DeepEqual(p.Chosen, chosen.IDs) || !reflect.DeepEqual(p.Rejected, rejected.IDs) ||
			!reflect.DeepEqual(p.Prompt, prompts[w.prompt].IDs) {
			t.Errorf("pair %d is %+v, want %+v", i, p, w)
		}
	}
	v := m.Values
	if v["pairs"] != 2 || v["skipped_prompts"] != 1 || v["duplicates"] != 1 ||
		math.Abs(v["score/chosen"]-0.65) > 1e-12 || math.Abs(v["score/rejected"]-0.15) > 1e-12 ||
		m.Get("noise_kept") != nil || m.Get("length_slope") != nil {
		t.Errorf("the metrics are %+v", m)
	}
	kept, err := dpo.ReadPairs(filepath.Join(dir, pairsFile))
	if err != nil || !reflect.DeepEqual(kept, pairs) {
		t.Errorf("%v: read back %+v", err, kept)
	}
	scores, err := stored.Read[policy.ScoreRow](filepath.Join(dir, policy.ScoresFile))
	if err != nil || len(scores) != len(rows) {
		t.Fatalf("%v: %d scores", err, len(scores))
	}
	for i, s := range scores {
		if s.Noisy != answer.Sum[i]/10 || s.Score != s.Noisy || s.Prompt != rows[i].Prompt ||
			s.Sample != rows[i].Sample {
			t.Errorf("score %d is %+v", i, s)
		}
	}

	for i := range rows {
		rows[i].Text = "same"
	}
	if _, err := pairsOf(tr, t.TempDir(), prompts, rows, embedding.Matrix{}, answer, m); err == nil ||
		!strings.Contains(err.Error(), "too alike") {
		t.Errorf("samples that are all alike give %v", err)
	}
}

// TestPairsDenoised: a sum without noise is in the space that is projected on, so that nothing changes; and what only
// the lengths explain goes.
func TestPairsDenoised(t *testing.T) {
	prompts, rows := samplesOf(4, 4)
	vectors := embedding.NewMatrix(16, 2)
	client := [2]float64{0.6, -0.3}
	sum := make([]float64, 16)
	for i := range 16 {
		angle := float64(i)
		vectors.Data[2*i], vectors.Data[2*i+1] = float32(math.Cos(angle)), float32(math.Sin(angle))
		sum[i] = client[0]*float64(vectors.Data[2*i]) + client[1]*float64(vectors.Data[2*i+1])
	}
	answer := &release.Release{Clients: 1, Sum: sum}
	tr := plainMethod(4, 2)
	plain, err := pairsOf(tr, t.TempDir(), prompts, rows, vectors, answer, series.NewRound(0))
	if err != nil {
		t.Fatal(err)
	}
	tr.Config.Scoring.Denoise = "project"
	m := series.NewRound(0)
	projected, err := pairsOf(tr, t.TempDir(), prompts, rows, vectors, answer, m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain {
		if plain[i].ChosenIndex != projected[i].ChosenIndex || plain[i].RejectedIndex != projected[i].RejectedIndex ||
			math.Abs(plain[i].ChosenScore-projected[i].ChosenScore) > 1e-6 {
			t.Errorf("pair %d is %+v, projected %+v", i, plain[i], projected[i])
		}
	}
	if v := m.Get("noise_kept"); v == nil || !(*v > 0 && *v < 0.5) {
		t.Errorf("the share of the noise that is left is %v", v)
	}

	// Longer samples score higher and nothing else: after the regression all are level.
	tr = plainMethod(4, 2)
	tr.Config.Scoring.LengthRegression = true
	for i := range rows {
		rows[i].IDs = make([]int32, 1+(i*7)%5)
		answer.Sum[i] = 3 * scoring.LogLengths([]int{len(rows[i].IDs)})[0]
	}
	dir := t.TempDir()
	if _, err := pairsOf(tr, dir, prompts, rows, vectors, answer, m); err != nil {
		t.Fatal(err)
	}
	scores, err := stored.Read[policy.ScoreRow](filepath.Join(dir, policy.ScoresFile))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 16; i++ {
		if math.Abs(scores[i].Score-scores[i-i%4].Score) > 1e-9 {
			t.Errorf("sample %d has %g, the first of its prompt %g", i, scores[i].Score, scores[i-i%4].Score)
		}
	}
	if slope := m.Get("length_slope"); slope == nil {
		t.Error("the slope is not told")
	} else if math.Abs(*slope-3) > 1e-9 {
		t.Errorf("the slope is %g, want 3", *slope)
	}
}

// circle is an encoder of texts "x y" to the direction (x, y).
type circle struct{}

func (circle) Name() string { return "circle" }
func (circle) Dim() int     { return 2 }
func (circle) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), 2)
	for i, text := range texts {
		var x, y float64
		if _, err := fmt.Sscan(text, &x, &y); err != nil {
			return m, err
		}
		r := math.Hypot(x, y)
		m.Row(i)[0], m.Row(i)[1] = float32(x/r), float32(y/r)
	}
	return m, nil
}

// TestPairsByWitness: the clients' mean points to (1, 1) and nearly all samples are along (1, 0.8). Similarity chooses
// one of these; the witness, what is missing.
func TestPairsByWitness(t *testing.T) {
	prompts, rows := samplesOf(4, 4)
	var texts []string
	for i := range rows {
		texts = append(texts, []string{"1 0.8", "1 0.7", "0.4 1", "1 0.6"}[i%4])
	}
	vectors, err := circle{}.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	sum := make([]float64, len(rows))
	for i := range sum {
		sum[i] = 10 * 0.5 * float64(vectors.Row(i)[0]+vectors.Row(i)[1])
	}
	chosen := func(objective string) int {
		tr := plainMethod(4, 2)
		tr.Config.Scoring.Objective, tr.Config.Scoring.ClipNorm = objective, 1e6
		tr.Encoder = circle{}
		tr.Prompter = quoting(t, "1 0", "0 1", "1 2", "2 1", "1 1")
		pairs, err := pairsOf(tr, t.TempDir(), prompts, rows, vectors, &release.Release{Clients: 10, Sum: sum},
			series.NewRound(0))
		if err != nil || len(pairs) != 4 {
			t.Fatalf("%s: %v, %d pairs", objective, err, len(pairs))
		}
		for _, p := range pairs[1:] {
			if p.ChosenIndex != pairs[0].ChosenIndex {
				t.Fatalf("%s: prompts choose %d and %d", objective, p.ChosenIndex, pairs[0].ChosenIndex)
			}
		}
		return pairs[0].ChosenIndex
	}
	if got := chosen("similarity"); got != 0 {
		t.Errorf("similarity chooses %d", got)
	}
	if got := chosen("witness"); got != 2 {
		t.Errorf("the witness chooses %d", got)
	}
}

// scoring.duplicates decides which of equal samples count.
func TestDuplicates(t *testing.T) {
	for how, want := range map[string][2]int{"": {0, 2}, "skip": {0, 2}, "index": {1, 0}, "published": {0, 1}} {
		prompts, rows := samplesOf(1, 3)
		rows[1].Text = rows[0].Text // sample 1 repeats sample 0 and has the higher score
		tr := plainMethod(3, 2)
		tr.Config.Scoring.Duplicates = how
		pairs, err := pairsOf(tr, t.TempDir(), prompts, rows, embedding.Matrix{},
			&release.Release{Clients: 1, Sum: []float64{5, 9, 1}}, series.NewRound(0))
		if err != nil || len(pairs) != 1 || pairs[0].ChosenIndex != want[0] || pairs[0].RejectedIndex != want[1] {
			t.Errorf("%q: %v, %+v, want %v", how, err, pairs, want)
		}
	}
}
