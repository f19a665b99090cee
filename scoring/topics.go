package scoring

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/mat"

	"popri/internal/numeric"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Topics divide texts by the nearest of some centroids, which follow from public text alone (CTCL, arXiv 2503.12347, has
// BERTopic's topics of Wikipedia).
type Topics struct {
	Centroids embedding.Matrix // one a row
	Keywords  []string         // of each topic: "a, b, c", its most characteristic public words
	Key       string           // identifies public text, encoder and number
}

// keywords is the number of a topic's words. CTCL has ten, in rows of 512 tokens; a small model's rows have 64.
const keywords = 5

// topicClients and mostTopics decide the number of topics: as many clients a topic as CTCL has records (75 316 for about
// 1000), so that a topic's count is above the noise, and no more topics than it has.
const topicClients, mostTopics = 75, 1000

// TopicTexts is the number of public texts that topics for a number of clients are made of.
func TopicTexts(clients int) int { return 200 * topicsFor(clients) }

func topicsFor(clients int) int { return min(mostTopics, max(2, clients/topicClients)) }

// NewTopics divides public texts with these vectors, one a row, into topics for a number of clients, by k-means. The
// keywords of topic t are the words w with the largest
//
//	n(w, t) · ln( n(w, t)/n(t) / (n(w)/n) )     n(·): texts of the topic and with the word
func NewTopics(texts []string, vectors embedding.Matrix, clients int, key string, random *rand.Rand) (Topics, error) {
	if err := checkSamples(vectors); err != nil {
		return Topics{}, err
	}
	if vectors.Rows != len(texts) || len(texts) == 0 {
		return Topics{}, fmt.Errorf("scoring: topics of %d public texts and %d vectors", len(texts), vectors.Rows)
	}
	points := mat.NewDense(vectors.Rows, vectors.Dim, nil)
	for i, x := range vectors.Data {
		points.Set(i/vectors.Dim, i%vectors.Dim, float64(x))
	}
	assigned := numeric.Cluster(points, topicsFor(clients), random)
	var members [][]int // of the clusters that have some
	for _, c := range slices.Compact(slices.Sorted(slices.Values(assigned))) {
		members = append(members, numeric.Where(len(texts), func(i int) bool { return assigned[i] == c }))
	}
	t := Topics{embedding.NewMatrix(len(members), vectors.Dim), make([]string, len(members)), key}
	of, all := make([]map[string]float64, len(members)), map[string]float64{}
	for c, list := range members {
		of[c] = map[string]float64{}
		for _, i := range list {
			for j, x := range vectors.Row(i) {
				t.Centroids.Row(c)[j] += x / float32(len(list))
			}
			for _, w := range topicWords(texts[i]) {
				of[c][w]++
				all[w]++
			}
		}
	}
	for c, list := range members {
		share := float64(len(list)) / float64(len(texts))
		weight := func(w string) float64 { return of[c][w] * math.Log(of[c][w]/share/all[w]) }
		words := slices.SortedFunc(maps.Keys(of[c]), func(a, b string) int {
			return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a, b))
		})
		t.Keywords[c] = strings.Join(words[:min(keywords, len(words))], ", ")
	}
	return t, nil
}

// topicWords are the different words of a text that can be keywords: of three letters or more.
func topicWords(text string) []string {
	list := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	list = slices.DeleteFunc(list, func(w string) bool { return len([]rune(w)) < 3 })
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// topicVotes is the question for topics: a text votes for the nearest, and a client's votes add up to 1, so that their
// norm is 1 at most.
var topicVotes = VoteOptions{Metric: CosineMetric, Choices: 1, PerText: true, Bound: 1}

// TopicsAsked are the name and the norm bound of [Topics.Question].
func TopicsAsked() (name string, bound float64) {
	return CheckedName(topicVotes.Name(), RoundChecks), topicVotes.Bound
}

// Question asks for the histogram of the clients' topics: each client's texts over the topics, as fractions.
func (t Topics) Question() (query.Query, error) {
	q, err := NewVotes(t.Centroids, topicVotes, t.Key)
	return WithChecks(q, RoundChecks), err
}

// Lines are what stands before texts with these vectors, one a row: the keywords of their topics.
func (t Topics) Lines(vectors embedding.Matrix) ([]string, error) {
	nearest, err := Nearest(t.Centroids, vectors, topicVotes.Metric, 1)
	return numeric.Map(nearest, func(topics []int) string { return t.Line(topics[0]) }), err
}

// Line is the line of a topic.
func (t Topics) Line(topic int) string { return "Keywords: " + t.Keywords[topic] + "\n" }
