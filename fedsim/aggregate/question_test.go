package aggregate

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/model/safetensors"
	"popri/scoring"
	"popri/scoring/query"
	"popri/scoring/update"
)

const dim = 6

// samples are random unit vectors.
func samples(n int) embedding.Matrix {
	m := embedding.NewMatrix(n, dim)
	r := rng.New(1, "samples")
	for i := range m.Data {
		m.Data[i] = float32(r.NormFloat64())
	}
	return scoring.Unit(m)
}

// people are made-up clients' means.
func people(n int) query.Clients {
	c := query.Clients{Means: query.Means{Clients: n, Dim: dim}}
	r := rng.New(2, "people")
	for range n * dim {
		c.Data = append(c.Data, r.NormFloat64()/3)
	}
	return c
}

// question writes a question about samples and reads it again.
func question(t testing.TB, change func(*Question, *Embeddings)) (Question, query.Query) {
	t.Helper()
	asked, err := scoring.NewCosine(samples(20), scoring.Options{Normalize: scoring.Standardized, Clip: 2},
		"key of the samples")
	if err != nil {
		t.Fatal(err)
	}
	described, err := scoring.Describe(asked)
	if err != nil {
		t.Fatal(err)
	}
	q, about := Question{Round: 3, Clients: 40}, Embeddings{Question: described, Encoder: "encoder-1"}
	if change != nil {
		change(&q, &about)
	}
	q.About = about
	path := filepath.Join(t.TempDir(), "question.safetensors")
	if err := q.Write(path); err != nil {
		t.Fatal(err)
	}
	read, m, err := ReadQuestion(path)
	if err != nil {
		t.Fatal(err)
	}
	return read, m.(query.Query)
}

// TestForm: a question says the weight of form, one without form is written as before, and an impossible weight is
// refused.
func TestForm(t *testing.T) {
	q, _ := question(t, func(_ *Question, e *Embeddings) { e.Form, e.Words = 0.5, 2 })
	about := q.About.(Embeddings)
	e, err := embedding.FitHashing([]string{"one", "two"}, embedding.HashingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if form, ok := about.With(e).(*embedding.Joined); !ok || form.Form != 0.5 || form.Words != 2 || form.Encoder != embedding.Encoder(e) {
		t.Errorf("the encoder is %v", about.With(e))
	}
	if q, _ := question(t, nil); q.About.(Embeddings).With(e) != embedding.Encoder(e) {
		t.Error("a question without form measures it")
	}
	for _, weight := range []float64{-1, 11} {
		bad := q
		about.Form = weight
		bad.About = about
		path := filepath.Join(t.TempDir(), "question")
		if err := bad.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadQuestion(path); !fault.IsUser(err) || !strings.Contains(err.Error(), "weight") {
			t.Errorf("weight %g: %v", weight, err)
		}
	}
}

// The question that is read is the one that was asked, for every kind, and its file does not depend on when it is
// written.
func TestQuestion(t *testing.T) {
	for _, name := range []string{"cosine/none", "cosine/standardize", "mean", "mean/full+5",
		"votes/l2/2/mean", "cosine/clipped/0.5"} {
		asked, err := scoring.Ask(name, 1.5, samples(9), "key")
		if err != nil {
			t.Fatal(err)
		}
		described, err := scoring.Describe(asked)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for range 2 {
			q, m := question(t, func(q *Question, e *Embeddings) { e.Question, q.Since = described, "1945-06" })
			about := q.About.(Embeddings)
			ids = append(ids, q.ID)
			if q.Round != 3 || q.Clients != 40 || q.Since != "1945-06" || m.Name() != asked.Name() ||
				m.Key() != asked.Key() || m.Bound() != asked.Bound() || m.Len() != asked.Len() || max(about.Samples.Dim, len(about.Centre)) != dim {
				t.Errorf("%s is read as %+v", name, q)
			}
			if m.NeedsTexts() {
				continue
			}
			x, err := asked.Sum(people(5))
			y, errRead := m.Sum(people(5))
			if err != nil || errRead != nil || !slices.Equal(x, y) {
				t.Errorf("%s: the sum is another one (%v, %v)", name, err, errRead)
			}
		}
		if ids[0] != ids[1] {
			t.Errorf("%s: written twice, the file differs", name)
		}
	}
}

// updates writes a question about updates of the small model.
func updates(t testing.TB, change func(*update.Question)) (path string, asked update.Question) {
	t.Helper()
	u := update.Question{Training: update.Training{Rate: 2, Epochs: 1, Batch: 16, Rows: 3, Clip: 0.8}, Round: 2, Seed: 1<<64 - 1,
		Model:   update.Model{Folder: strings.Repeat("0a", 32), Rank: 1, Adapter: 1<<63 + 1, Rows: "document", Length: 64},
		Weights: []float32{0, 1e-30, -2}}
	if change != nil {
		change(&u)
	}
	path = filepath.Join(t.TempDir(), "question.safetensors")
	if err := (Question{About: Updates{u}, Round: u.Round, Clients: 40, Nonce: "n"}).Write(path); err != nil {
		t.Fatal(err)
	}
	return path, u
}

// TestUpdates: a question about updates is read as it was asked, and one with an impossible value is refused with the
// file, the key and the value.
func TestUpdates(t *testing.T) {
	path, u := updates(t, nil)
	q, asked, err := ReadQuestion(path)
	if err != nil || q.Round != 2 || q.Clients != 40 || !reflect.DeepEqual(asked, query.Question(u)) || asked.Key() != u.Key() {
		t.Fatalf("%+v is read as %+v (%v)", u, asked, err)
	}
	for want, change := range map[string]func(*update.Question){
		`rate is "0"`:            func(u *update.Question) { u.Rate = 0 },
		`epochs is "-1"`:         func(u *update.Question) { u.Epochs = -1 },
		`batch is "0"`:           func(u *update.Question) { u.Batch = 0 },
		`texts is "-2"`:          func(u *update.Question) { u.Training.Rows = -2 },
		`norm_bound is "0"`:      func(u *update.Question) { u.Clip = 0 },
		`round is "0"`:           func(u *update.Question) { u.Round = 0 },
		`model.rank is "0"`:      func(u *update.Question) { u.Model.Rank = 0 },
		`model.length is "1"`:    func(u *update.Question) { u.Model.Length = 1 },
		`model.length is "1025"`: func(u *update.Question) { u.Model.Length = 1025 },
		`model.folder is "here"`: func(u *update.Question) { u.Model.Folder = "here" },
		`"weights"`:              func(u *update.Question) { u.Weights[1] = float32(math.Inf(1)) },
		`shape [0]`:              func(u *update.Question) { u.Weights = nil },
	} {
		path, _ := updates(t, change)
		if _, _, err := ReadQuestion(path); !fault.IsUser(err) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %s of %s", err, want, path)
		}
	}
}

// FuzzQuestion: the metadata of a question's file may be anything. What is read is written as it was.
func FuzzQuestion(f *testing.F) {
	for _, seed := range []string{
		`{"format":"popri question 1","round":1,"query":"mean","key":"k","norm_bound":1,"clients":3,"encoder":"e"}`,
		`{"format":"popri update question 1","round":1,"norm_bound":1,"clients":3,"rate":1,"epochs":1,"batch":1,"model":{"rank":1}}`,
		`{"format":"popri update question 1","epochs":1e99}`, `{"round":"1"}`, ``,
	} {
		f.Add(seed)
	}
	path, _ := updates(f, nil)
	file, err := safetensors.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file.Metadata()[questionKey])
	file.Close()
	f.Fuzz(func(t *testing.T, metadata string) {
		path := filepath.Join(t.TempDir(), "question")
		err := safetensors.Write(path, []safetensors.Tensor{safetensors.FromFloat32(weightsTensor, []int64{3}, []float32{0, 1e-30, -2}),
			safetensors.FromFloat64(centreTensor, []int64{2}, []float64{0, 1})}, map[string]string{questionKey: metadata})
		if err != nil {
			return
		}
		q, asked, err := ReadQuestion(path)
		if err != nil {
			if !fault.IsUser(err) {
				t.Errorf("%v", err)
			}
			return
		}
		if err := q.Write(path); err != nil {
			t.Fatal(err)
		}
		again, same, err := ReadQuestion(path)
		if again.ID = q.ID; err != nil || same.Key() != asked.Key() || !reflect.DeepEqual(again, q) {
			t.Errorf("%+v is read again as %+v (%v)", q, again, err)
		}
	})
}
