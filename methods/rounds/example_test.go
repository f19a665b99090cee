package rounds_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/fedsim/release"
	"popri/internal/rows"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/scoring"
)

// louder is a method whose state is a number: the sum of what it was told in all rounds.
type louder struct {
	dir   string
	heard float64
}

// Round asks for the mean of one embedding, and remembers the answer on disk.
func (m *louder) Round(_ context.Context, r *rounds.Round) error {
	q, err := scoring.NewCosine(embedding.Matrix{Rows: 1, Dim: 1, Data: []float32{1}},
		scoring.Options{Normalize: scoring.None, Clip: 1}, "one sample")
	if err != nil {
		return err
	}
	answer, err := r.Collect(q)
	if err != nil {
		return err
	}
	m.heard += answer.Sum[0]
	r.Figures.Set("heard", m.heard)
	return rows.WriteLines(m.file(r.Number), []float64{m.heard})
}

// Restore reads the state after a round.
func (m *louder) Restore(round int) error {
	if m.heard = 0; round == 0 {
		return nil
	}
	_, err := fmt.Sscan(read(m.file(round)), &m.heard)
	return err
}

func (m *louder) Product(_ context.Context, _ rounds.Stage, file string) ([]sampling.Row, error) {
	product := []sampling.Row{{Text: fmt.Sprintf("heard %g", m.heard), Finish: sampling.Public}}
	return product, rows.Write(file, product)
}

func (m *louder) Prune(int) error { return nil }
func (m *louder) Close()          {}

func (m *louder) file(round int) string { return filepath.Join(m.dir, fmt.Sprintf("heard-%d", round)) }

func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(content)
}

// three are clients who always answer 3.
type three struct{}

func (three) Collect(r release.Request) (*release.Release, error) {
	return &release.Release{Round: r.Round, Sum: []float64{3}, Clients: 5}, nil
}

// A run of two rounds that is opened again continues where it was, for a third.
func Example() {
	dir, err := os.MkdirTemp("", "rounds")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	for _, last := range []int{2, 3} {
		method := &louder{dir: dir}
		runner := rounds.New(rounds.Options{Dir: dir, Rounds: 3, Method: method, Clients: three{},
			Spent: func() (float64, error) { return 1, nil }})
		if err := runner.TrainTo(ctx, last); err != nil {
			panic(err)
		}
		fmt.Printf("after round %d: heard %g\n", runner.Done(), method.heard)
	}
	// Output:
	// after round 2: heard 6
	// after round 3: heard 9
}
