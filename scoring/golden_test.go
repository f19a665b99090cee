package scoring

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/model/safetensors"
	"popri/scoring/query"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// set is one golden set: NAME.json and NAME.safetensors.
type set struct {
	Name  string
	J     int
	Clip  float64
	Kind  string
	Text  []int `json:"text_id"`
	Ranks map[string]map[string][]*[2]int
	Zero  []int `json:"zero_variance_clients"`
	Drops int   `json:"duplicates_within_prompts"`

	file         *safetensors.File
	samples      embedding.Matrix
	texts        embedding.Matrix
	offsets      []int
	unitS, unitT embedding.Matrix
	wide         bool // float32 unit vectors here, float64 ones in the reference
}

func sets(t *testing.T) []*set {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(golden.Root(t), "scoring", "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no scoring sets: %v", err)
	}
	var out []*set
	for _, name := range names {
		s := &set{}
		testfile.ReadJSON(t, name, s)
		if s.file, err = safetensors.Open(strings.TrimSuffix(name, ".json") + ".safetensors"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.file.Close() })
		s.samples, s.texts = s.matrix(t, "samples"), s.matrix(t, "texts")
		for _, o := range s.ints(t, "offsets") {
			s.offsets = append(s.offsets, int(o))
		}
		s.unitS, s.unitT = s.samples, s.texts
		switch s.Kind {
		case "plain", "duplicates", "zero_variance":
		case "unnormalised":
			s.unitS, s.unitT, s.wide = Unit(s.samples), Unit(s.texts), true
		default:
			t.Errorf("%s: unknown kind of set %q", name, s.Kind)
		}
		out = append(out, s)
	}
	return out
}

func (s *set) matrix(t *testing.T, name string) embedding.Matrix {
	t.Helper()
	tensor, ok := s.file.Tensor(name)
	if !ok {
		t.Fatalf("%s: no tensor %s", s.Name, name)
	}
	data, err := tensor.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return embedding.Matrix{Rows: int(tensor.Shape[0]), Dim: int(tensor.Shape[1]), Data: data}
}

func (s *set) floats(t *testing.T, name string) []float64 {
	t.Helper()
	tensor, ok := s.file.Tensor(name)
	if !ok {
		t.Fatalf("%s: no tensor %s", s.Name, name)
	}
	data, err := tensor.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (s *set) ints(t *testing.T, name string) []int64 {
	t.Helper()
	tensor, ok := s.file.Tensor(name)
	if !ok {
		t.Fatalf("%s: no tensor %s", s.Name, name)
	}
	data, err := tensor.Int64s()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (s *set) client(i int) embedding.Matrix { return s.unitT.Slice(s.offsets[i], s.offsets[i+1]) }

func (s *set) clients() int { return len(s.offsets) - 1 }

// compare asserts the documented tolerances: 1e-9 for float64 arithmetic on the stored vectors; where the reference
// normalised in float64 and popri in float32, the tolerances of float32.
func (s *set) compare(t *testing.T, what string, got, want []float64) {
	t.Helper()
	absolute, relative := 1e-9, 0.0
	if s.wide {
		absolute, relative = 2e-6, 1e-4
		if strings.HasPrefix(what, "sum") {
			absolute *= float64(s.clients())
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s %s: %d values, want %d", s.Name, what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= absolute+relative*math.Abs(want[i])) {
			t.Fatalf("%s %s: value %d is %.12g, want %.12g", s.Name, what, i, got[i], want[i])
		}
	}
}

// TestGoldenScoring walks every tensor of every set.
func TestGoldenScoring(t *testing.T) {
	counts := map[string]int{}
	for _, s := range sets(t) {
		n := s.samples.Rows
		scores := make([][]float64, s.clients())
		for i := range scores {
			scores[i] = make([]float64, n)
			meanCosine(scores[i], s.unitS, s.client(i))
		}
		standard := make([][]float64, len(scores))
		for i := range scores {
			standard[i] = slices.Clone(scores[i])
			if standardize(standard[i]) == slices.Contains(s.Zero, i) {
				t.Errorf("%s: client %d has zero variance: want %v", s.Name, i, slices.Contains(s.Zero, i))
			}
		}
		byName := map[string][][]float64{"none": scores, "standardize": standard, "mean_cosine": scores,
			"standardized": standard}
		for _, name := range s.file.Names() {
			kind := strings.SplitN(name, "_", 2)[0]
			switch kind {
			case "samples", "texts", "offsets", "rank": // inputs
				continue
			case "mean", "standardized":
				s.compare(t, name, slices.Concat(byName[name]...), s.floats(t, name))
			case "clipped", "norm":
				var clipped, norms []float64
				for _, v := range byName[strings.SplitN(name, "_", 2)[1]] {
					v = slices.Clone(v)
					norms = append(norms, Clip(v, s.Clip))
					clipped = append(clipped, v...)
				}
				s.compare(t, name, map[string][]float64{"clipped": clipped, "norm": norms}[kind], s.floats(t, name))
			case "sum":
				s.checkSum(t, name)
			case "nearest", "votes":
				s.checkVotes(t, name)
			default:
				if !golden.Unbuilt(t, "scoring/"+name) {
					t.Errorf("%s: tensor %s", s.Name, name)
				}
				continue
			}
			counts[kind]++
		}
		for name, policies := range s.Ranks {
			s.checkRanks(t, name, policies, counts)
		}
	}
	for kind, n := range counts {
		golden.Checked(t, "scoring/"+kind, n)
	}
	if len(counts) == 0 {
		golden.Checked(t, "scoring", 0)
	}
}

// checkSum compares both paths: sum_NORMALIZE or sum_NORMALIZE_clip_C.
func (s *set) checkSum(t *testing.T, name string) {
	t.Helper()
	parts := strings.Split(name, "_")
	options := Options{Normalize: Normalize(parts[1]), Clip: s.Clip}
	if len(parts) == 4 && parts[2] == "clip" {
		c, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		options.Clip = c
	}
	prepared := prepare(t, s.unitS, options)
	want := s.floats(t, name)
	means, err := query.MeanEmbeddings(s.unitT, s.offsets)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := prepared.Sum(means)
	if err != nil {
		t.Fatal(err)
	}
	s.compare(t, name+" (fast path)", fast, want)
	reference := make([]float64, len(want))
	for i := range s.clients() {
		contribution, err := prepared.ContributionOfMean(means.Data[i*means.Dim : (i+1)*means.Dim])
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range contribution {
			reference[k] += v
		}
	}
	s.compare(t, name+" (reference path)", reference, want)
}

// checkVotes compares nearest_M_qQ and votes_WHAT_M_qQ.
func (s *set) checkVotes(t *testing.T, name string) {
	t.Helper()
	parts := strings.Split(name, "_")
	q, err := strconv.Atoi(strings.TrimPrefix(parts[len(parts)-1], "q"))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	metric := Metric(parts[len(parts)-2])
	nearest, err := Nearest(s.samples, s.texts, metric, q)
	if parts[1] == "far" {
		nearest, err = s.furthest(metric, q)
	}
	if err != nil {
		t.Fatal(err)
	}
	if parts[0] == "nearest" {
		want := s.ints(t, name)
		for i, choices := range nearest {
			for j, c := range choices {
				if int64(c) != want[i*q+j] {
					t.Fatalf("%s %s: text %d, choice %d is sample %d, want %d", s.Name, name, i, j, c, want[i*q+j])
				}
			}
		}
		return
	}
	got := make([]float64, s.samples.Rows)
	for i := range s.clients() {
		v := Votes(nearest[s.offsets[i]:s.offsets[i+1]], len(got), false)
		switch parts[1] {
		case "near", "far":
		case "clientmean":
			for k := range v {
				v[k] /= float64(s.offsets[i+1] - s.offsets[i])
			}
		case "clientclip":
			Clip(v, 1)
		default:
			golden.Unbuilt(t, "scoring/"+name)
			return
		}
		for k := range v {
			got[k] += v[k]
		}
	}
	want := s.floats(t, name)
	for k := range got {
		if d := math.Abs(got[k] - want[k]); !(d <= 1e-12) {
			t.Fatalf("%s %s: sample %d has %g votes, want %g", s.Name, name, k, got[k], want[k])
		}
	}
}

// furthest are the far choices of [Contrast], and of the metric cosine the samples whose opposites are nearest.
func (s *set) furthest(metric Metric, q int) (out [][]int, err error) {
	if metric == CosineMetric {
		opposite := embedding.NewMatrix(s.samples.Rows, s.samples.Dim)
		for i, x := range s.samples.Data {
			opposite.Data[i] = -x
		}
		return Nearest(opposite, s.texts, metric, q)
	}
	c, err := NewContrast(s.samples, nil, q, 1, "")
	if err != nil {
		return nil, err
	}
	votes, err := c.votes(s.texts, nil)
	for _, v := range votes {
		out = append(out, v.far)
	}
	return out, err
}

// checkRanks compares SCORES/l=L for every policy.
func (s *set) checkRanks(t *testing.T, name string, policies map[string][]*[2]int, counts map[string]int) {
	t.Helper()
	source, rank, ok := strings.Cut(name, "/l=")
	l, err := strconv.Atoi(rank)
	if !ok || err != nil {
		t.Fatalf("%s: ranks of %q", s.Name, name)
	}
	for policy, want := range policies {
		switch Duplicates(policy) {
		case ByIndex, SkipDuplicates, Published:
		default:
			golden.Unbuilt(t, "scoring/ranks/"+policy)
			continue
		}
		got, err := Rank(s.floats(t, source), s.Text, s.J, l, Duplicates(policy))
		if err != nil {
			t.Fatal(err)
		}
		var pairs []Pair
		for prompt, p := range want {
			if p != nil {
				pairs = append(pairs, Pair{prompt, p[0], p[1]})
			}
		}
		if !slices.Equal(got.Pairs, pairs) || got.Skipped != len(want)-len(pairs) || got.Duplicates != s.Drops {
			t.Errorf("%s %s %s: got %+v, want %v and %d duplicates", s.Name, name, policy, got, pairs, s.Drops)
		}
		counts[fmt.Sprintf("ranks/%s", policy)]++
	}
}

// meanCosine writes into scores, one for each sample, the mean over texts of the cosine between the sample and the
// text. Rows of both matrices must be unit vectors (see [Unit]). No texts give zeros. It panics if sizes differ.
func meanCosine(scores []float64, samples, texts embedding.Matrix) {
	if len(scores) != samples.Rows || samples.Dim != texts.Dim {
		panic("scoring: meanCosine of unequal sizes")
	}
	mean := make([]float64, texts.Dim)
	query.MeanRow(mean, texts)
	for i := range scores {
		var sum float64
		for j, v := range samples.Row(i) {
			sum += float64(v) * mean[j]
		}
		scores[i] = sum
	}
}
