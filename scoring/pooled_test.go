package scoring

import (
	"math"
	"math/rand/v2"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/query"
)

// noisedMean is the noised mean of clients' scores of samples, and the samples prepared.
func noisedMean(t *testing.T, r *rand.Rand, samples embedding.Matrix, means query.Means, o Options,
	noise float64) PooledRelease {
	t.Helper()
	s, err := Prepare(samples, o)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := s.Sum(means)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sum {
		sum[i] = sum[i]/float64(means.Clients) + noise*r.NormFloat64()
	}
	gain, err := s.Gain(means)
	if err != nil {
		t.Fatal(err)
	}
	return PooledRelease{Samples: s, Mean: sum, Gain: gain, Noise: noise}
}

func pooled(t *testing.T, releases ...PooledRelease) []float64 {
	t.Helper()
	p := NewPooled(releases[0].Samples.d)
	for _, r := range releases {
		if err := p.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	last := releases[len(releases)-1]
	scores, err := p.Scores(last.Samples, last.Gain)
	if err != nil {
		t.Fatal(err)
	}
	return scores
}

// someClients are clients whose means lie about a common direction.
func someClients(r *rand.Rand, clients, d int) query.Means {
	m := query.Means{Clients: clients, Dim: d, Data: normals(r, clients*d, 0.05)}
	for i := range clients {
		m.Row(i)[0] += 0.3
		m.Row(i)[1] -= 0.2
	}
	return m
}

// TestPooledBeginsAsTheProjection: one release, full or compact, gives its projection.
func TestPooledBeginsAsTheProjection(t *testing.T) {
	r := rng.New(1, t.Name())
	const n, d = 120, 9
	means := someClients(r, 30, d)
	for _, o := range []Options{{Standardized, 1}, {None, 0.5}} {
		samples := unitMatrix(r, n, d)
		for i := range n { // of deficient rank, and with a direction of small variance
			samples.Row(i)[d-1] = samples.Row(i)[0]
			samples.Row(i)[d-2] *= 1e-3
		}
		full := noisedMean(t, r, samples, means, o, 0.3)
		want, err := full.Samples.Project(full.Mean)
		if err != nil {
			t.Fatal(err)
		}
		got := pooled(t, full)
		if diff := difference(got, want); diff > 1e-9 {
			t.Errorf("%+v: the pooled scores of one release are %g off its projection", o, diff)
		}
		p := NewPooled(d)
		if err := p.Add(full); err != nil {
			t.Fatal(err)
		}
		left, err := p.Noise(full.Samples, full.Gain)
		if kept := math.Sqrt(float64(full.Samples.Rank()) / n); err != nil || math.Abs(left/full.Noise-kept) > 1e-9 {
			t.Errorf("%+v: noise of %g is left, want %g (%v)", o, left/full.Noise, kept, err)
		}

		question, err := NewCompact(samples, o, "k")
		if err != nil {
			t.Fatal(err)
		}
		sum, err := question.Sum(query.Clients{Means: means})
		if err != nil {
			t.Fatal(err)
		}
		for k := range sum {
			sum[k] = sum[k]/30 + 0.3*r.NormFloat64()
		}
		if want, err = full.Samples.Expand(sum); err != nil {
			t.Fatal(err)
		}
		short := PooledRelease{Samples: full.Samples, Mean: sum, Compact: true, Gain: full.Gain, Noise: 0.3}
		if diff := difference(pooled(t, short), want); diff > 1e-9 {
			t.Errorf("%+v: the pooled scores of one compact release are %g off", o, diff)
		}
	}
}

// TestPooledErrorFalls: with R releases about the same samples, the error of the scores falls as 1/√R, as
// [Pooled.Noise] says; and with other samples in each round about as much.
func TestPooledErrorFalls(t *testing.T) {
	r := rng.New(2, t.Name())
	const n, d, noise = 200, 8, 0.5
	means := someClients(r, 50, d)
	o := Options{Standardized, 1}
	for _, same := range []bool{true, false} {
		samples := unitMatrix(r, n, d)
		truth := noisedMean(t, r, samples, means, o, 1e-12)
		errorOf := func(releases int) (measured, stated float64) {
			const trials = 60
			for range trials {
				p := NewPooled(d)
				for k := range releases {
					about := samples
					if !same && k < releases-1 {
						about = unitMatrix(r, n, d)
					}
					if err := p.Add(noisedMean(t, r, about, means, o, noise)); err != nil {
						t.Fatal(err)
					}
				}
				scores, err := p.Scores(truth.Samples, truth.Gain)
				if err != nil {
					t.Fatal(err)
				}
				for i, s := range scores {
					measured += (s - truth.Mean[i]) * (s - truth.Mean[i]) / n / trials
				}
				left, err := p.Noise(truth.Samples, truth.Gain)
				if err != nil {
					t.Fatal(err)
				}
				stated += left * left / trials
			}
			return math.Sqrt(measured), math.Sqrt(stated)
		}
		one, _ := errorOf(1)
		for _, releases := range []int{4, 16} {
			measured, stated := errorOf(releases)
			if ratio := measured / one * math.Sqrt(float64(releases)); math.Abs(ratio-1) > 0.15 {
				t.Errorf("same samples: %v, %d releases: the error is %g of that of one, times √R %g", same, releases,
					measured/one, ratio)
			}
			if math.Abs(measured/stated-1) > 0.15 {
				t.Errorf("same samples: %v, %d releases: the error is %g, stated is %g", same, releases, measured,
					stated)
			}
		}
	}
}

// TestPooledWeighsByNoise: a release with a hundred times the noise changes next to nothing, in either order.
func TestPooledWeighsByNoise(t *testing.T) {
	r := rng.New(3, t.Name())
	means := someClients(r, 20, 6)
	o := Options{Standardized, 1}
	good := noisedMean(t, r, unitMatrix(r, 80, 6), means, o, 0.01)
	bad := noisedMean(t, r, unitMatrix(r, 80, 6), means, o, 1)
	alone := pooled(t, good)
	if diff := difference(pooled(t, bad, good), alone); diff > 0.002 {
		t.Errorf("a bad release changes scores by %g", diff)
	}
	truth := noisedMean(t, r, bad.Samples.given, means, o, 1e-12)
	if diff := difference(pooled(t, good, bad), truth.Mean); diff > 0.05 {
		t.Errorf("after a good release, the scores of a bad one are %g off", diff)
	}
}

// TestPooledSumsRestore: an estimate restored from its sums goes on to the same bits.
func TestPooledSumsRestore(t *testing.T) {
	r := rng.New(4, t.Name())
	means := someClients(r, 20, 5)
	first := noisedMean(t, r, unitMatrix(r, 60, 5), means, Options{None, 0.3}, 0.1)
	second := noisedMean(t, r, unitMatrix(r, 60, 5), means, Options{None, 0.3}, 0.1)
	want := pooled(t, first, second)
	p := NewPooled(5)
	if err := p.Add(first); err != nil {
		t.Fatal(err)
	}
	a, b := p.Sums()
	restored, err := RestorePooled(1, a, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := restored.Add(second); err != nil || restored.Releases() != 2 {
		t.Fatalf("%d releases (%v)", restored.Releases(), err)
	}
	got, err := restored.Scores(second.Samples, second.Gain)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("score %d is %g, want %g", i, got[i], want[i])
		}
	}
	a[3] = math.NaN()
	if _, err := RestorePooled(1, a, b); err == nil {
		t.Error("sums that are no numbers are no error")
	}
	if _, err := RestorePooled(1, a[1:], b); err == nil {
		t.Error("sums of other sizes are no error")
	}
	for name, bad := range map[string]PooledRelease{"too few values": {first.Samples, first.Mean[1:], false, 1, 1},
		"no gain": {first.Samples, first.Mean, false, 0, 1}, "no noise": {first.Samples, first.Mean, false, 1, 0},
		"full as compact": {first.Samples, first.Mean, true, 1, 1}} {
		if err := p.Add(bad); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
