package scoring_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"popri/model/embedding"
	"popri/scoring/query"
)

// makeQuery makes the query under test about samples, unit vectors of [clientDim] values.
type makeQuery func(samples embedding.Matrix) (query.Query, error)

// clientDim is the length of the embeddings, and sampleCount the number of samples of a query.
const (
	clientDim   = 6
	sampleCount = 40
)

// slack is the rounding error of a norm, as a share of the bound, that package noise allows.
const slack = 1e-9

// conforms checks, over ordinary and adversarial clients and samples, that a client's vector keeps its bound, that the
// fast sum is the sum of the clients' vectors, that no client moves it by more than the
// bound, and that a client without texts answers zeros.
func conforms(t *testing.T, make makeQuery) {
	t.Helper()
	for name, samples := range worlds() {
		q, err := make(samples)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if q.Name() == "" || q.Key() == "" || q.Len() < 1 || !(q.Bound() > 0) {
			t.Fatalf("%s: name %q, key %q, %d values, bound %g", name, q.Name(), q.Key(), q.Len(), q.Bound())
		}
		for kind, clients := range crowds(samples) {
			if !q.NeedsTexts() {
				clients.Texts, clients.Offsets = embedding.Matrix{}, nil // the query uses the means only
			}
			check(t, name+", "+kind, q, clients)
		}
	}
	refusals(t, make)
}

func check(t *testing.T, name string, q query.Query, clients query.Clients) {
	t.Helper()
	sum, err := q.Sum(clients)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(sum) != q.Len() {
		t.Fatalf("%s: a sum of %d values, want %d", name, len(sum), q.Len())
	}
	total := make([]float64, q.Len())
	for i := range clients.Clients {
		v, err := q.Vector(clients, i)
		if err != nil {
			t.Fatalf("%s: client %d: %v", name, i, err)
		}
		if norm := length(v); !(norm <= q.Bound()*(1+slack)) {
			t.Errorf("%s: client %d has norm %g, more than %g", name, i, norm, q.Bound())
		}
		for j := range v {
			total[j] += v[j]
		}
		without := remove(clients, i)
		less, err := q.Sum(without)
		if err != nil {
			t.Fatal(err)
		}
		for j := range less {
			less[j] = sum[j] - less[j]
		}
		// Taking a client away changes the sum by its own vector, so by no more than the bound, for any other clients.
		if norm := length(less); !(norm <= q.Bound()*(1+slack)) {
			t.Errorf("%s: without client %d the sum moves by %.12g, more than %g", name, i, norm, q.Bound())
		}
		if empty, err := q.Vector(without, i); err != nil || length(empty) != 0 {
			t.Errorf("%s: client %d without texts answers %v (%v)", name, i, empty, err)
		}
	}
	for j := range total {
		if !(math.Abs(total[j]-sum[j]) <= 1e-7*q.Bound()*float64(clients.Clients)) {
			t.Fatalf("%s: value %d of the sum is %g, the clients' vectors add up to %g", name, j, sum[j], total[j])
		}
	}
}

// refusals: values that are not finite, and embeddings of another length, are errors.
func refusals(t *testing.T, make makeQuery) {
	t.Helper()
	q, err := make(worlds()["random"])
	if err != nil {
		t.Fatal(err)
	}
	broken := crowds(worlds()["random"])["random"]
	broken.Data[0] = math.NaN()
	broken.Texts.Data[0] = float32(math.NaN())
	if _, err := q.Vector(broken, 0); err == nil {
		t.Error("a client whose embedding is no number is no error")
	}
	short := query.Clients{Means: query.Means{Clients: 1, Dim: clientDim - 1, Data: []float64{1, 0, 0, 0, 0}},
		Texts: embedding.Matrix{Rows: 1, Dim: clientDim - 1, Data: []float32{1, 0, 0, 0, 0}}, Offsets: []int{0, 1}}
	if _, err := q.Sum(short); err == nil {
		t.Errorf("clients' embeddings of %d values are no error", clientDim-1)
	}
}

// worlds are samples of several kinds.
func worlds() map[string]embedding.Matrix {
	r := rand.New(rand.NewPCG(1, 2))
	out := map[string]embedding.Matrix{}
	for _, name := range []string{"random", "nearly equal", "in a plane", "equal"} {
		m := embedding.NewMatrix(sampleCount, clientDim)
		for i := range sampleCount {
			row := m.Row(i)
			for j := range row {
				v := r.NormFloat64()
				switch {
				case name == "nearly equal":
					v = 1 + 1e-6*v
				case name == "in a plane" && j > 1, name == "equal" && j > 0:
					v = 0
				case name == "equal":
					v = 1
				}
				row[j] = float32(v)
			}
			unit(row)
		}
		out[name] = m
	}
	for name, by := range map[string]float32{"zeros": 0, "short": 1e-30, "long": 1e30} { // as means of variations can be
		m := embedding.NewMatrix(sampleCount, clientDim)
		for i, v := range out["random"].Data[:sampleCount*clientDim/2] { // each sample is there twice
			m.Data[i], m.Data[len(m.Data)/2+i] = by*v, by*v
		}
		out[name] = m
	}
	return out
}

// crowds are clients of several kinds, relative to the samples.
func crowds(samples embedding.Matrix) map[string]query.Clients {
	r := rand.New(rand.NewPCG(3, 4))
	out := map[string]query.Clients{}
	for kind, text := range map[string]func(client int, row []float32){
		"random": func(_ int, row []float32) {
			for j := range row {
				row[j] = float32(r.NormFloat64())
			}
			unit(row)
		},
		"samples": func(client int, row []float32) { copy(row, samples.Row(client%samples.Rows)) },
		"opposed": func(client int, row []float32) {
			copy(row, samples.Row(0))
			if client%2 == 1 {
				for j := range row {
					row[j] = -row[j]
				}
			}
		},
		"huge": func(_ int, row []float32) {
			for j := range row {
				row[j] = float32(1e15 * r.NormFloat64())
			}
		},
		"largest": func(_ int, row []float32) {
			for j := range row {
				row[j] = math.MaxFloat32 * float32(1-2*r.IntN(2))
			}
		},
		"least":  func(_ int, row []float32) { row[r.IntN(clientDim)] = math.SmallestNonzeroFloat32 },
		"zero":   func(int, []float32) {}, // texts of which an encoder finds nothing
		"across": func(_ int, row []float32) { row[clientDim-1] = 1 },
		"tiny": func(_ int, row []float32) {
			for j := range row {
				row[j] = float32(1e-13 * r.NormFloat64())
			}
		},
	} {
		out[kind] = crowd(r, text)
	}
	return out
}

func crowd(r *rand.Rand, text func(client int, row []float32)) query.Clients {
	const n = 9
	texts := embedding.Matrix{Dim: clientDim}
	offsets := []int{0}
	for i := range n {
		count := 1 + r.IntN(5)
		if i == n-1 {
			count = 300 // one client with many texts
		}
		for range count {
			row := make([]float32, clientDim)
			text(i, row)
			texts.Data = append(texts.Data, row...)
			texts.Rows++
		}
		offsets = append(offsets, texts.Rows)
	}
	means, err := query.MeanEmbeddings(texts, offsets)
	if err != nil {
		panic(fmt.Sprint("conforms: ", err)) // made-up clients
	}
	labels := make([]int32, texts.Rows) // of three, or none of them
	for i := range labels {
		labels[i] = int32(r.IntN(4)) - 1
	}
	return query.Clients{Means: means, Texts: texts, Offsets: offsets, Labels: labels}
}

// remove takes the texts of one client away.
func remove(c query.Clients, client int) query.Clients {
	out := query.Clients{Means: query.Means{Clients: c.Clients, Dim: c.Dim, Data: append([]float64(nil), c.Data...)}}
	clear(out.Row(client))
	if !c.HasTexts() {
		return out
	}
	out.Texts.Dim, out.Offsets = c.Dim, []int{0}
	for i := range c.Clients {
		if m := c.Of(i); i != client {
			out.Texts.Data = append(out.Texts.Data, m.Data...)
			out.Texts.Rows += m.Rows
			out.Labels = append(out.Labels, c.LabelsOf(i)...)
		}
		out.Offsets = append(out.Offsets, out.Texts.Rows)
	}
	return out
}

func unit(row []float32) {
	squares := 0.0
	for _, v := range row {
		squares += float64(v) * float64(v)
	}
	for j := range row {
		row[j] = float32(float64(row[j]) / math.Sqrt(squares))
	}
}

func length(v []float64) float64 {
	squares := 0.0
	for _, x := range v {
		squares += x * x
	}
	return math.Sqrt(squares)
}
