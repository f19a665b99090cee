package evolution

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/model/safetensors"
	"popri/scoring"
	"popri/testkit/golden"
)

// set is one set of golden clients and samples.
type set struct {
	name           string
	file           *safetensors.File
	samples, texts embedding.Matrix
	offsets        []int64
}

// TestGoldenVotes follows the votes of golden clients from texts to a selection: the samples become a population, its
// embeddings the samples of the vote, and the sum of the clients' votes the counts.
func TestGoldenVotes(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(golden.Root(t), "scoring", "*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for _, name := range names {
		s := openSet(t, name)
		for _, tensor := range s.file.Names() {
			// Far votes are for contrast with the near ones, and no part of Private Evolution.
			if strings.HasPrefix(tensor, "votes_") && !strings.HasPrefix(tensor, "votes_far") {
				checked[strings.Split(tensor, "_")[1]] += s.follow(t, tensor)
			}
		}
	}
	for _, kind := range []string{"near", "clientmean", "clientclip"} {
		golden.Checked(t, "evolution/votes_"+kind, checked[kind])
	}
}

func openSet(t *testing.T, name string) *set {
	t.Helper()
	file, err := safetensors.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	s := &set{name: filepath.Base(name), file: file}
	t.Cleanup(func() { s.file.Close() })
	s.samples, s.texts, s.offsets = s.matrix(t, "samples"), s.matrix(t, "texts"), s.ints(t, "offsets")
	return s
}

func (s *set) tensor(t *testing.T, name string) safetensors.Tensor {
	t.Helper()
	tensor, ok := s.file.Tensor(name)
	if !ok {
		t.Fatalf("%s: no tensor %s", s.name, name)
	}
	return tensor
}

func (s *set) matrix(t *testing.T, name string) embedding.Matrix {
	t.Helper()
	tensor := s.tensor(t, name)
	data, err := tensor.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return embedding.Matrix{Rows: int(tensor.Shape[0]), Dim: int(tensor.Shape[1]), Data: data}
}

func (s *set) ints(t *testing.T, name string) []int64 {
	t.Helper()
	data, err := s.tensor(t, name).Int64s()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// follow checks the tensor votes_KIND_METRIC_qQ and what is selected by it, and returns the number of votes compared.
func (s *set) follow(t *testing.T, name string) int {
	t.Helper()
	parts := strings.Split(name, "_")
	q, err := strconv.Atoi(strings.TrimPrefix(parts[3], "q"))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	n := s.samples.Rows
	e := open(t, &scribe{}, "private_evolution.variant=aug_pe",
		"private_evolution.threshold=0", fmt.Sprintf("private_evolution.population=%d", n/2))
	population := s.population()
	samples, err := e.Embeddings(context.Background(), population, table{rows: s.rows(), dim: s.samples.Dim}, nil)
	if err != nil {
		t.Fatal(err)
	}
	nearest, err := scoring.Nearest(samples, s.texts, scoring.Metric(parts[2]), q)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range s.ints(t, fmt.Sprintf("nearest_%s_q%d", parts[2], q)) {
		if got := nearest[i/q][i%q]; got != int(want) {
			t.Fatalf("%s: choice %d of text %d is sample %d, want %d", s.name, i%q, i/q, got, want)
		}
	}
	want, err := s.tensor(t, name).Float64s()
	if err != nil {
		t.Fatal(err)
	}
	votes := s.votes(t, parts[1], nearest)
	for i := range want {
		if math.Abs(votes[i]-want[i]) > 1e-12 {
			t.Fatalf("%s %s: sample %d has %g votes, want %g", s.name, name, i, votes[i], want[i])
		}
	}
	s.checkRanks(t, e, population, votes, want)
	return n
}

// population takes each golden sample for a text that is named by its index.
func (s *set) population() Population {
	p := Population{Round: 1}
	for i := range s.samples.Rows {
		p.Samples = append(p.Samples, Sample{Text: strconv.Itoa(i), Parent: -1, Kind: Public})
	}
	return p
}

func (s *set) rows() map[string][]float32 {
	rows := map[string][]float32{}
	for i := range s.samples.Rows {
		rows[strconv.Itoa(i)] = s.samples.Row(i)
	}
	return rows
}

// votes sums the votes of all clients: as they are (near), divided by a client's texts, or clipped to norm 1.
func (s *set) votes(t *testing.T, kind string, nearest [][]int) []float64 {
	t.Helper()
	sum := make([]float64, s.samples.Rows)
	for i, from := range s.offsets[:len(s.offsets)-1] {
		texts := nearest[from:s.offsets[i+1]]
		own := scoring.Votes(texts, len(sum), false)
		switch kind {
		case "clientmean":
			for k := range own {
				own[k] /= float64(len(texts))
			}
		case "clientclip":
			scoring.Clip(own, 1)
		case "near":
		default:
			golden.Unbuilt(t, "evolution/votes_"+kind)
		}
		for k, v := range own {
			sum[k] += v
		}
	}
	return sum
}

// checkRanks checks that the half of the samples that is selected has the highest golden counts.
func (s *set) checkRanks(t *testing.T, e *Evolution, p Population, votes, want []float64) {
	t.Helper()
	selection := e.Select(p, votes)
	if selection.Kept || selection.Len() != len(want)/2 {
		t.Fatalf("%s: selected %+v, want %d of %d", s.name, selection, len(want)/2, len(want))
	}
	sorted := slices.Sorted(slices.Values(want))
	border := sorted[len(sorted)-len(want)/2]
	for i, copies := range selection.Copies {
		if want[i] > border+1e-9 && copies != 1 || want[i] < border-1e-9 && copies != 0 {
			t.Fatalf("%s: sample %d with %g votes is taken %d times, where the border is %g", s.name, i, want[i],
				copies, border)
		}
	}
}
