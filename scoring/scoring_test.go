package scoring

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/query"
)

// prepare is [Prepare] of samples that are sound.
func prepare(t testing.TB, samples embedding.Matrix, o Options) *Samples {
	t.Helper()
	s, err := Prepare(samples, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unitMatrix draws unit vectors around a common direction, so that centring matters.
func unitMatrix(r *rand.Rand, rows, dim int) embedding.Matrix {
	m := embedding.NewMatrix(rows, dim)
	for i := range rows {
		for j := range dim {
			m.Row(i)[j] = float32(r.NormFloat64())
		}
		m.Row(i)[0] += 2
	}
	return Unit(m)
}

func normals(r *rand.Rand, n int, std float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = std * r.NormFloat64()
	}
	return v
}

func difference(a, b []float64) float64 {
	worst := 0.0
	for i := range a {
		worst = max(worst, math.Abs(a[i]-b[i]))
	}
	return worst
}

var bothOptions = []Options{{None, 1}, {None, 0.1}, {None, 1e6}, {Standardized, 1}, {Standardized, 3},
	{Standardized, 1e6}}

func TestFastPathEqualsReferencePath(t *testing.T) {
	r := rng.New(1, t.Name())
	for trial := range 40 {
		n, d, clients := 1+r.IntN(80), 1+r.IntN(30), r.IntN(20)
		samples := unitMatrix(r, n, d)
		offsets := []int{0}
		for range clients {
			offsets = append(offsets, offsets[len(offsets)-1]+r.IntN(5)) // some clients have no texts
		}
		texts := unitMatrix(r, offsets[clients], d)
		switch trial % 4 {
		case 1: // samples all alike: standardised scores vanish
			for i := range n {
				copy(samples.Row(i), samples.Row(0))
			}
		case 2: // a client whose texts cancel out nearly, and one that sees every sample alike
			if offsets[clients] >= 2 {
				for j, v := range texts.Row(0) {
					texts.Row(1)[j] = -v
				}
				texts.Row(1)[d-1] += 1e-6
			}
		}
		for _, o := range bothOptions {
			s := prepare(t, samples, o)
			means, err := query.MeanEmbeddings(texts, offsets)
			if err != nil {
				t.Fatal(err)
			}
			fast, err := s.Sum(means)
			if err != nil {
				t.Fatal(err)
			}
			reference := make([]float64, n)
			for i := range clients {
				v, err := s.ContributionOfMean(means.Data[i*d : (i+1)*d])
				if err != nil {
					t.Fatal(err)
				}
				if norm := length(v); norm > o.Clip*(1+1e-12) {
					t.Fatalf("trial %d, %+v: client %d contributes norm %g", trial, o, i, norm)
				}
				for k := range v {
					reference[k] += v[k]
				}
			}
			// A client whose standardised scores are rounding noise may differ by its whole vector; none here is.
			if d := difference(fast, reference); d > 1e-6*max(1, o.Clip/math.Sqrt(float64(n)))+1e-9*float64(clients) {
				t.Errorf("trial %d, %+v, n %d, d %d, %d clients: paths differ by %g", trial, o, n, samples.Dim, clients,
					d)
			}
		}
	}
}

// One client's share of the fast path's sum stays within the clip norm: that is the sensitivity.
func TestFastPathSensitivity(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 60 {
		n, d := 1+r.IntN(60), 1+r.IntN(20)
		samples := unitMatrix(r, n, d)
		texts := unitMatrix(r, 1+r.IntN(3), d)
		if r.IntN(2) == 0 { // nearly constant scores, where the Gram matrix loses digits
			for i := range n {
				for j := range d {
					samples.Row(i)[j] = float32(1 / math.Sqrt(float64(d)) * (1 + 1e-6*r.NormFloat64()))
				}
			}
		}
		for _, o := range bothOptions {
			s := prepare(t, samples, o)
			means, _ := query.MeanEmbeddings(texts, []int{0, texts.Rows})
			sum, err := s.Sum(means)
			if err != nil {
				t.Fatal(err)
			}
			if norm := length(sum); norm > o.Clip*(1+1e-9) || math.IsNaN(norm) {
				t.Errorf("%+v: one client moves the sum by %.15g", o, norm)
			}
		}
	}
}

// closedForm projects y onto the columns of a by a QR factorisation.
func closedForm(a *mat.Dense, y []float64) []float64 {
	var qr mat.QR
	qr.Factorize(a)
	var q mat.Dense
	qr.QTo(&q)
	n, d := a.Dims()
	thin := q.Slice(0, n, 0, d)
	var c, p mat.VecDense
	c.MulVec(thin.T(), mat.NewVecDense(n, y))
	p.MulVec(thin, &c)
	return p.RawVector().Data
}

func TestProjectEqualsClosedForm(t *testing.T) {
	r := rng.New(1, t.Name())
	for _, o := range []Options{{None, 1}, {Standardized, 1}} {
		for _, size := range [][2]int{{30, 4}, {200, 16}, {500, 64}, {40, 39}} {
			n, d := size[0], size[1]
			samples := unitMatrix(r, n, d)
			s := prepare(t, samples, o)
			a := mat.NewDense(n, d, slices.Clone(s.v))
			y := normals(r, n, 3)
			got, err := s.Project(y)
			if err != nil {
				t.Fatal(err)
			}
			want := closedForm(a, y)
			if x := difference(got, want); x > 1e-11 {
				t.Errorf("%v n %d, d %d: differs from QR by %g", o.Normalize, n, d, x)
			}
			if s.Rank() != d {
				t.Errorf("rank %d, want %d", s.Rank(), d)
			}
			if again, _ := s.Project(got); difference(again, got) > 1e-11 {
				t.Errorf("projecting twice moves by %g", difference(again, got))
			}
			means, _ := query.MeanEmbeddings(unitMatrix(r, 20, d), []int{0, 3, 9, 20})
			sum, err := s.Sum(means)
			if err != nil {
				t.Fatal(err)
			}
			if kept, _ := s.Project(sum); difference(kept, sum) > 1e-11 {
				t.Errorf("the true sum moves by %g", difference(kept, sum))
			}
		}
	}
}

func TestProjectWithDependentColumnsAndFewSamples(t *testing.T) {
	r := rng.New(1, t.Name())
	samples := unitMatrix(r, 60, 12)
	for i := range samples.Rows {
		row := samples.Row(i)
		row[3], row[5], row[7] = row[2], row[2]+row[4], 0
	}
	s := prepare(t, samples, Options{None, 1})
	if s.Rank() != 9 {
		t.Errorf("rank %d, want 9 of 12 columns", s.Rank())
	}
	y := normals(r, 60, 1)
	got, err := s.Project(y)
	if err != nil {
		t.Fatal(err)
	}
	independent := mat.NewDense(60, 9, nil)
	for i := range 60 {
		at := 0
		for j, v := range samples.Row(i) {
			if j != 3 && j != 5 && j != 7 {
				independent.Set(i, at, float64(v))
				at++
			}
		}
	}
	if d := difference(got, closedForm(independent, y)); d > 1e-6 { // row[5] is a sum rounded to float32
		t.Errorf("differs from the projection on independent columns by %g", d)
	}

	few := prepare(t, unitMatrix(r, 5, 12), Options{None, 1})
	y = normals(r, 5, 1)
	if got, _ := few.Project(y); few.Rank() != 5 || difference(got, y) > 1e-9 {
		t.Errorf("with fewer samples than dimensions nothing can be taken out: rank %d, moved by %g", few.Rank(),
			difference(got, y))
	}
	alike := embedding.NewMatrix(5, 3)
	for i := range 5 {
		alike.Row(i)[1] = 1
	}
	none := prepare(t, alike, Options{Standardized, 1})
	if got, err := none.Project(y); err != nil || none.Rank() != 0 || difference(got, make([]float64, 5)) != 0 {
		t.Errorf("equal samples have no scores to project on: %v, %v", got, err)
	}
}

// Noise keeps rank/n of its variance and gains no mean; the true sum stays.
func TestProjectIsUnbiasedAndShrinksNoise(t *testing.T) {
	r := rng.New(1, t.Name())
	const n, d, draws = 400, 20, 400
	for _, o := range []Options{{None, 1}, {Standardized, 1}} {
		s := prepare(t, unitMatrix(r, n, d), o)
		means, _ := query.MeanEmbeddings(unitMatrix(r, 90, d), []int{0, 30, 60, 90})
		truth, err := s.Sum(means)
		if err != nil {
			t.Fatal(err)
		}
		var squares float64
		bias := make([]float64, n)
		for range draws {
			y := normals(r, n, 2)
			for i := range y {
				y[i] += truth[i]
			}
			p, err := s.Project(y)
			if err != nil {
				t.Fatal(err)
			}
			for i := range p {
				bias[i] += (p[i] - truth[i]) / draws
				squares += (p[i] - truth[i]) * (p[i] - truth[i])
			}
		}
		got, want := squares/(n*draws*4), float64(s.Rank())/n
		// The sum of squares is 4·χ² with rank·draws degrees of freedom: five deviations.
		if math.Abs(got/want-1) > 5*math.Sqrt(2/(float64(s.Rank())*draws)) {
			t.Errorf("%v: noise keeps %.4f of its variance, want %.4f", o.Normalize, got, want)
		}
		if b, limit := length(bias), 2*math.Sqrt(float64(s.Rank())/draws)*1.6; b > limit {
			t.Errorf("%v: bias of length %.3f, at most %.3f by chance", o.Normalize, b, limit)
		}
	}
}

func TestStandardizeAndClip(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 50 {
		v := normals(r, 2+r.IntN(50), math.Exp(5*r.NormFloat64()))
		standardize(v)
		mean, std := moments(v)
		if math.Abs(mean) > 1e-9 || math.Abs(std-1) > 1e-9 {
			t.Errorf("standardised: mean %g, deviation %g", mean, std)
		}
		c := math.Exp(r.NormFloat64())
		before := Clip(v, c)
		if got, want := length(v), min(before, c); math.Abs(got-want) > 1e-12*want {
			t.Errorf("clipped from %g to %g, want %g", before, got, want)
		}
	}
	for _, v := range [][]float64{{}, {0.3}, {0.3, 0.3, 0.3}, {0, 0}, {1e9, 1e9 + 1e-4, 1e9}} {
		if standardize(v) || slices.ContainsFunc(v, func(x float64) bool { return x != 0 }) {
			t.Errorf("constant scores become %g", v)
		}
	}
}

func TestLengthRegression(t *testing.T) {
	r := rng.New(1, t.Name())
	const prompts, perPrompt = 50, 8
	scores, lengths := make([]float64, prompts*perPrompt), make([]float64, prompts*perPrompt)
	for i := range scores {
		lengths[i] = 10 + 40*r.Float64()
		scores[i] = 3*float64(i/perPrompt) - 0.25*lengths[i] // prompts differ in level, which must not blur the slope
	}
	got, slope, err := LengthRegression(scores, lengths, perPrompt)
	if err != nil || math.Abs(slope+0.25) > 1e-12 {
		t.Fatalf("slope %g, want -0.25 (%v)", slope, err)
	}
	for i := range got {
		if d := got[i] - got[i/perPrompt*perPrompt]; math.Abs(d) > 1e-10 {
			t.Fatalf("sample %d still differs by %g within its prompt", i, d)
		}
	}
	same := make([]float64, len(scores))
	for i := range same {
		same[i] = 7
	}
	if got, slope, err := LengthRegression(scores, same, perPrompt); err != nil || slope != 0 ||
		difference(got, scores) != 0 {
		t.Errorf("equal lengths: slope %g, moved by %g, %v", slope, difference(got, scores), err)
	}
	for _, f := range []func() error{
		func() error { _, _, err := LengthRegression(scores, lengths[1:], perPrompt); return err },
		func() error { _, _, err := LengthRegression(scores, lengths, 7); return err },
		func() error { _, _, err := LengthRegression(scores, lengths, 0); return err },
		func() error { _, _, err := LengthRegression([]float64{math.NaN()}, []float64{1}, 1); return err },
	} {
		if f() == nil {
			t.Error("bad input gave no error")
		}
	}
	if got := LogLengths([]int{0, 9}); got[0] != 0 || math.Abs(got[1]-math.Log(10)) > 1e-15 {
		t.Errorf("LogLengths gives %g", got)
	}
}

func TestRankInvariants(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 100 {
		prompts, perPrompt := 1+r.IntN(5), 2+r.IntN(8)
		rejected := 2 + r.IntN(perPrompt-1)
		scores := make([]float64, prompts*perPrompt)
		texts := make([]string, len(scores))
		for i := range scores {
			scores[i] = float64(r.IntN(5)) // many ties
			texts[i] = strings.Repeat("x", r.IntN(6))
		}
		for _, policy := range []Duplicates{ByIndex, SkipDuplicates, Published} {
			got, err := Rank(scores, texts, perPrompt, rejected, policy)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Pairs)+got.Skipped != prompts {
				t.Fatalf("%d pairs and %d skipped of %d prompts", len(got.Pairs), got.Skipped, prompts)
			}
			for _, p := range got.Pairs {
				at := p.Prompt * perPrompt
				if p.Chosen == p.Rejected || policy != Published && scores[at+p.Chosen] < scores[at+p.Rejected] {
					t.Fatalf("%s: pair %+v of scores %v", policy, p, scores[at:at+perPrompt])
				}
				if policy == SkipDuplicates && texts[at+p.Chosen] == texts[at+p.Rejected] {
					t.Fatalf("pair %+v of equal texts", p)
				}
				if policy == ByIndex {
					better := 0
					for i, s := range scores[at : at+perPrompt] {
						if s > scores[at+p.Rejected] || s == scores[at+p.Rejected] && i < p.Rejected {
							better++
						}
					}
					if better != rejected-1 {
						t.Fatalf("rejected has rank %d, want %d", better+1, rejected)
					}
				}
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	good := Unit(embedding.Matrix{Rows: 2, Dim: 2, Data: []float32{1, 0, 0, 1}})
	bad := embedding.Matrix{Rows: 2, Dim: 2, Data: []float32{1, 0, float32(math.NaN()), 1}}
	prepared := prepare(t, good, Options{None, 1})
	for name, f := range map[string]func() error{
		"normalize":  func() error { _, err := Prepare(good, Options{"z", 1}); return err },
		"clip":       func() error { _, err := Prepare(good, Options{None, 0}); return err },
		"NaN clip":   func() error { _, err := Prepare(good, Options{None, math.NaN()}); return err },
		"NaN sample": func() error { _, err := Prepare(bad, Options{None, 1}); return err },
		"no samples": func() error { _, err := Prepare(embedding.NewMatrix(0, 2), Options{None, 1}); return err },
		"torn matrix": func() error {
			_, err := Prepare(embedding.Matrix{Rows: 2, Dim: 2}, Options{None, 1})
			return err
		},
		"dimensions": func() error {
			_, err := prepared.Sum(query.Means{Clients: 1, Dim: 3, Data: make([]float64, 3)})
			return err
		},
		"offsets":    func() error { _, err := query.MeanEmbeddings(good, []int{0, 1}); return err },
		"offsets 2":  func() error { _, err := query.MeanEmbeddings(good, []int{0, 2, 1, 2}); return err },
		"sum length": func() error { _, err := prepared.Project([]float64{1}); return err },
		"NaN sum":    func() error { _, err := prepared.Project([]float64{1, math.NaN()}); return err },
		"rank 1":     func() error { _, err := Rank[int]([]float64{1, 2}, nil, 2, 1, ByIndex); return err },
		"rank 3":     func() error { _, err := Rank[int]([]float64{1, 2}, nil, 2, 3, ByIndex); return err },
		"per prompt": func() error { _, err := Rank[int]([]float64{1, 2, 3}, nil, 2, 2, ByIndex); return err },
		"policy":     func() error { _, err := Rank[int]([]float64{1, 2}, nil, 2, 2, "x"); return err },
		"texts":      func() error { _, err := Rank([]float64{1, 2}, []int{1}, 2, 2, ByIndex); return err },
		"NaN score":  func() error { _, err := Rank[int]([]float64{1, math.NaN()}, nil, 2, 2, ByIndex); return err },
		"metric":     func() error { _, err := Nearest(good, good, "x", 1); return err },
		"q":          func() error { _, err := Nearest(good, good, L2, 3); return err },
		"votes dim":  func() error { _, err := Nearest(good, embedding.NewMatrix(1, 3), L2, 1); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func ExampleRank() {
	scores := []float64{0.2, 0.9, 0.5, 0.1}
	ranking, _ := Rank[string](scores, nil, 4, 3, ByIndex)
	fmt.Printf("%+v\n", ranking.Pairs[0])
	// Output: {Prompt:0 Chosen:1 Rejected:0}
}

func BenchmarkPrepare(b *testing.B) {
	samples := unitMatrix(rng.New(1), 18_000, 384)
	for b.Loop() {
		prepare(b, samples, Options{Standardized, 1})
	}
}

func BenchmarkSum(b *testing.B) {
	r := rng.New(1)
	s := prepare(b, unitMatrix(r, 18_000, 384), Options{Standardized, 1})
	const clients = 20_000
	means := query.Means{Clients: clients, Dim: 384, Data: normals(r, clients*384, 0.05)}
	for b.Loop() {
		if _, err := s.Sum(means); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(clients*b.N)/b.Elapsed().Seconds(), "clients/s")
}

func BenchmarkProject(b *testing.B) {
	r := rng.New(1)
	samples := unitMatrix(r, 18_000, 384)
	y := normals(r, 18_000, 1)
	prepared := prepare(b, samples, Options{Standardized, 1})
	for b.Loop() {
		fresh := &Samples{options: prepared.options, n: prepared.n, d: prepared.d, v: prepared.v, gram: prepared.gram}
		if _, err := fresh.Project(y); err != nil {
			b.Fatal(err)
		}
	}
}
func TestRankCounts(t *testing.T) {
	scores := []float64{
		3, 3, 1, 0, // a tie at the top
		4, 2, 2, 2, // and one among the others
		9, 8, 7, 6, // none
		1, 1, 1, 1, // two alike, which are one sample
	}
	texts := []string{"a", "b", "c", "d", "a", "b", "c", "d", "a", "b", "c", "d", "a", "b", "a", "c"}
	r, err := Rank(scores, texts, 4, 2, SkipDuplicates)
	want := Ranking{Pairs: []Pair{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 1}}, Duplicates: 1, Ties: 3}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("%v: %+v, want %+v", err, r, want)
	}
}
