package local_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"popri/datasets/clients"
	"popri/fedsim/local"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/scoring/ensemble"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

func model(t *testing.T) (*lm.Model, *tokenizer.Tokenizer) {
	t.Helper()
	dir := testworld.Shared(t).Generator
	m := testmodel.Load(t, dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	t.Cleanup(m.Free)
	tok := testmodel.Tokenizer(t, dir)
	return m, tok
}

func some(n int) (out []clients.Client) {
	for i := range n {
		c := clients.Client{ID: fmt.Sprint(i)}
		for k := range 1 + i%3 {
			c.Texts = append(c.Texts, fmt.Sprintf("my neighbour %d sees the hat %d.", i, k))
		}
		out = append(out, c)
	}
	return out
}

// histogram is what an ensemble of clients votes, and the prompts that it made.
func histogram(t *testing.T, m *lm.Model, tok *tokenizer.Tokenizer, train []clients.Client, n int,
	q ensemble.Question) ([]int64, [][]string) {
	t.Helper()
	var prompts [][]string
	e, err := local.NewTeachers(t.Context(), train, m,
		local.TeacherOptions{Teachers: n, Examples: 2, Seed: 4, Room: 8, Width: 64,
			Prompt: func(texts []string) ([]int32, error) {
				prompts = append(prompts, slices.Clone(texts))
				return tok.Encode(texts[0] + "\n" + texts[len(texts)-1] + "\n"), nil
			}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	counts, err := e.Votes(q)
	if err != nil || e.N() != len(train) {
		t.Fatal(err, e.N())
	}
	return counts, prompts
}

// TestVotes: the histogram counts the teachers' votes, each computed from a forward pass over prompt and text.
func TestVotes(t *testing.T) {
	m, tok := model(t)
	for _, coordinated := range []bool{true, false} {
		q := ensemble.Question{Teachers: 7, Vocab: m.Config.Vocab, Coordinated: coordinated, Temperature: .9, Seed: 3,
			Round: 2, Part: 5, Prefix: tok.Encode("the cat")[:2], Banned: []int32{0}}
		counts, prompts := histogram(t, m, tok, some(20), 7, q)
		want, shared := make([]int64, q.Vocab), q.Randomness()
		for i, texts := range prompts {
			row := append(tok.Encode(texts[0]+"\n"+texts[len(texts)-1]+"\n"), q.Prefix...)
			err := tensor.Run(func(s *tensor.Scope) error {
				logits := s.Float32s(m.Logits(s,
					m.Hidden(s, lm.PaddedInput(s, [][]int32{row}, m.Config.Context),
						nil)))[(len(row)-1)*q.Vocab:][:q.Vocab]
				if coordinated {
					want[ensemble.Vote(logits, q.Temperature, shared)]++
				} else {
					want[ensemble.Draw(logits, q.Temperature, q.Banned, q.Uniform(i))]++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(counts, want) || len(prompts) != 7 || counts[0] != 0 {
			t.Errorf("coordinated %v: the histogram is %v, want %v", coordinated, counts, want)
		}
	}
}

// TestOneClientMovesOneTeacher: a client's texts are in one prompt. Without them, the histogram moves by no more than
// the question's bound: by one vote that changes, or by one that is missing where each client is a teacher.
func TestOneClientMovesOneTeacher(t *testing.T) {
	m, tok := model(t)
	const n = 12
	for at := range 4 {
		shared, coordinated, count := at%2 == 0, at < 2, n
		if shared {
			count = 4
		}
		q := ensemble.Question{Teachers: count, Vocab: m.Config.Vocab, Coordinated: coordinated, Temperature: 1,
			Seed: 3, Round: 1, Part: 1, Shared: shared}
		whole, prompts := histogram(t, m, tok, some(n), count, q)
		for i := range n {
			train := some(n)
			train[i].Texts = nil
			without, others := histogram(t, m, tok, train, count, q)
			squares := 0.0
			for j := range whole {
				d := float64(whole[j] - without[j])
				squares += d * d
			}
			if math.Sqrt(squares) > q.Bound() || !shared && squares != 1 {
				t.Errorf("shared %v: client %d moves the histogram by %g", shared, i, math.Sqrt(squares))
			}
			changed := len(prompts) - len(others)
			for k := range others {
				if !slices.ContainsFunc(prompts, func(p []string) bool { return slices.Equal(p, others[k]) }) {
					changed++
				}
			}
			if changed > 1 {
				t.Errorf("shared %v: client %d changes %d prompts", shared, i, changed)
			}
		}
	}
}

// TestGroups: each client has one teacher, teachers have as many clients as can be, and the division depends on public
// data alone.
func TestGroups(t *testing.T) {
	seen := map[int]bool{}
	for _, g := range local.Groups(23, 5, 1) {
		if len(g) < 4 || len(g) > 5 {
			t.Errorf("a teacher has %d clients", len(g))
		}
		for _, c := range g {
			if seen[c] || c >= 23 {
				t.Errorf("client %d is in two teachers", c)
			}
			seen[c] = true
		}
	}
	if len(seen) != 23 {
		t.Errorf("%d clients have a teacher", len(seen))
	}
}

func TestRefuses(t *testing.T) {
	m, _ := model(t)
	for name, o := range map[string]local.TeacherOptions{"none": {Examples: 1}, "too many": {Teachers: 4, Examples: 1},
		"no texts": {Teachers: 2}, "no width": {Teachers: 2, Examples: 1},
		"no room": {Teachers: 2, Examples: 1, Width: 8}} {
		o.Prompt = func([]string) ([]int32, error) { return []int32{1}, nil }
		if _, err := local.NewTeachers(t.Context(), some(3), m, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
