package scoring

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/query"
)

// TestTopics: clusters of public texts become topics with their own words. A client's histogram has its texts' fractions,
// whatever their number, and without noise the release has the clients' topics as they are.
func TestTopics(t *testing.T) {
	var texts []string
	var vectors embedding.Matrix
	vectors.Dim = 3
	add := func(m *embedding.Matrix, axis int, off float32) {
		row := []float32{off, off, off}
		row[axis] = 1
		m.Data = append(m.Data, row...)
		m.Rows++
	}
	for i := range 60 {
		texts = append(texts, fmt.Sprintf("the %s of it, %s", []string{"harbour", "garden", "engine"}[i%3], []string{"ships", "roses", "steam"}[i%3]))
		add(&vectors, i%3, .01*float32(i%5))
	}
	topics, err := NewTopics(texts, vectors, 3*topicClients, "public", rng.New(1))
	if err != nil || topics.Centroids.Rows != 3 {
		t.Fatalf("%d topics (%v)", topics.Centroids.Rows, err)
	}
	lines, err := topics.Lines(vectors)
	for i, line := range lines {
		if want := strings.Fields(texts[i])[1]; err != nil || !strings.HasPrefix(line, "Keywords: "+want) ||
			!strings.HasSuffix(line, "\n") || strings.Contains(line, "the,") && !strings.HasSuffix(line, "the\n") {
			t.Fatalf("%q has the line %q (%v)", texts[i], line, err)
		}
	}
	q, err := topics.Question()
	if name, bound := TopicsAsked(); err != nil || q.Name() != name || q.Bound() != bound || bound != 1 {
		t.Fatalf("asked %s, %g (%v)", q.Name(), q.Bound(), err)
	}
	all := query.Clients{Means: query.Means{Clients: 3, Dim: 3, Data: make([]float64, 9)}, Offsets: []int{0, 4, 5, 5}}
	all.Texts.Dim = 3
	for _, axis := range []int{0, 0, 0, 1, 2} {
		add(&all.Texts, axis, .2)
	}
	sum, err := q.Sum(all)
	at := func(axis int) int { return slices.Index(lines[:3], lines[axis]) }
	for axis, want := range []float64{.75, .25, 1} {
		of := slices.IndexFunc(topics.Keywords, func(w string) bool { return "Keywords: "+w+"\n" == lines[at(axis)] })
		if err != nil || sum[of] != want {
			t.Errorf("topic %q has %v of %v, want %g (%v)", topics.Keywords[of], sum[of], sum[:3], want, err)
		}
	}
	if _, err := NewTopics(texts[1:], vectors, 9, "public", rng.New(1)); err == nil {
		t.Error("a text has no vector, and there are topics")
	}
}
