package judge

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"popri/internal/numeric"
	"popri/model/embedding"
)

// Attribute compares the distribution of something countable in texts with the clients' texts.
type Attribute struct {
	Name string `json:"name"`
	// Divergence is Jensen and Shannon's in bits, 0 for the same and 1 for nothing in common, by set of texts. Samples
	// of one distribution differ, too: that is what the other half of the clients shows.
	Divergence map[string]float64 `json:"divergence"`
	// Rows are the values that tell most, with their fractions.
	Rows []Share `json:"rows"`
}

// Share is how often a value occurs.
type Share struct {
	Value   string  `json:"value"`
	Product float64 `json:"product"`
	Clients float64 `json:"clients"`
}

// Topic is a cluster of texts of product and clients.
type Topic struct {
	Words   []string `json:"words"` // that are more frequent in it than elsewhere
	Product float64  `json:"product"`
	Clients float64  `json:"clients"`
}

// named are patterns whose fractions are compared.
var named = []struct {
	name string
	find *regexp.Regexp
}{
	{"a number", regexp.MustCompile(`\d`)},
	{"a year", regexp.MustCompile(`\b(?:1[5-9]|20)\d{2}\b`)},
	{"a date", regexp.MustCompile(`\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b`)},
	{"an amount of money", regexp.MustCompile(`[$€£¥]\s?\d`)},
	{"a question", regexp.MustCompile(`\?`)},
	{"a quotation", regexp.MustCompile(`["“”„«»]`)},
	{"a line break", regexp.MustCompile(`\n`)},
	{"a mail or web address", regexp.MustCompile(`@\pL|https?://|www\.`)},
	{"no capital", regexp.MustCompile(`^[^\p{Lu}]*$`)},
}

// counts are how often values occur.
type counts map[string]float64

// counter counts something in a set of texts.
type counter struct {
	name  string
	count func(s set) counts
}

func (in Input) attributes(first, second []int) []Attribute {
	sets := in.sets(first, second)
	size := math.MaxInt // words of each set, so that all have as many n-grams
	for i, s := range sets {
		// In another order: the first words of a file may all be of one kind, such as public text.
		sets[i].texts = numeric.Pick(s.texts, in.random("words "+s.name).Perm(len(s.texts)))
		size = min(size, countWords(s.texts...))
	}
	var out []Attribute
	for _, l := range in.counters(size) {
		all := numeric.Map(sets, l.count)
		a := Attribute{Name: l.name, Divergence: map[string]float64{}}
		for i := 1; i < len(sets); i++ {
			if len(all[i]) > 0 && len(all[0]) > 0 {
				a.Divergence[sets[i].name] = divergence(all[i], all[0])
			}
		}
		a.Rows = telling(all[1], all[0], float64(len(sets[1].texts)), float64(len(sets[0].texts)),
			l.name == "named patterns")
		out = append(out, a)
	}
	return out
}

// counters are what is counted; of each set, n-grams of the first size words.
func (in Input) counters(size int) []counter {
	list := []counter{{"length in words", eachText(lengthOf)}, {"named patterns", eachText(patternsOf)},
		{"words", grams(1, size)}, {"pairs of words", grams(2, size)}, {"three words", grams(3, size)}}
	if slices.ContainsFunc(in.Labels, func(l string) bool { return l != "" }) {
		list = append(list, counter{"labels", func(s set) counts {
			c := counts{}
			for _, label := range s.labels {
				c[label]++
			}
			return c
		}})
	}
	return list
}

// eachText counts what each text of a set has.
func eachText(has func(text string) []string) func(set) counts {
	return func(s set) counts {
		c := counts{}
		for _, text := range s.texts {
			for _, value := range has(text) {
				c[value]++
			}
		}
		return c
	}
}

func lengthOf(text string) []string {
	n := len(strings.Fields(text)) / lengthBin * lengthBin
	return []string{strconv.Itoa(n) + " to " + strconv.Itoa(n+lengthBin-1)}
}

func patternsOf(text string) (names []string) {
	for _, p := range named {
		if p.find.MatchString(text) {
			names = append(names, p.name)
		}
	}
	return names
}

// grams counts runs of n words among the first size words of a set.
func grams(n, size int) func(set) counts {
	return func(s set) counts {
		c, left := counts{}, size
		for _, text := range s.texts {
			w := words(text)
			w = w[:min(len(w), left)]
			left -= len(w)
			for i := range len(w) - n + 1 {
				c[strings.Join(w[i:i+n], " ")]++
			}
		}
		return c
	}
}

// lengthBin is the width of a bin of lengths, and mostRows the number of values that are shown.
const lengthBin, mostRows = 10, 16

// divergence is the Jensen-Shannon divergence of two distributions, in bits.
func divergence(a, b counts) float64 {
	var p, q []float64
	ofA, ofB := a.sum(), b.sum()
	for _, k := range union(a, b) {
		p, q = append(p, a[k]/ofA), append(q, b[k]/ofB)
	}
	return stat.JensenShannon(p, q) / math.Ln2
}

// union are the values of two counts, sorted.
func union(a, b counts) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// sum is exact in any order, because counts are whole numbers.
func (c counts) sum() (sum float64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// telling are the values that add most to the divergence. Fractions are of texts if ofTexts is set, else of all values.
func telling(product, clients counts, products, texts float64, ofTexts bool) (out []Share) {
	p, q := product.sum(), clients.sum()
	if ofTexts {
		p, q = products, texts
	}
	for _, k := range union(product, clients) {
		out = append(out, Share{k, product[k] / max(p, 1), clients[k] / max(q, 1)})
	}
	slices.SortStableFunc(out, func(a, b Share) int { return cmp.Compare(b.tells(), a.tells()) })
	return out[:min(len(out), mostRows)]
}

// tells is what a value adds to the divergence.
func (s Share) tells() float64 {
	m := (s.Product + s.Clients) / 2
	part := func(x float64) float64 {
		if x == 0 {
			return 0
		}
		return x / 2 * math.Log2(x/m)
	}
	return part(s.Product) + part(s.Clients)
}

// topicCount is the number of topics.
const topicCount = 12

// topics puts texts of product and clients into common clusters.
func (in Input) topics(product, clients embedding.Matrix, products, texts []string) ([]Topic, error) {
	points, err := principal(product, clients)
	if err != nil {
		return nil, err
	}
	assigned := numeric.Cluster(points, topicCount, in.random("topics"))
	k := slices.Max(assigned) + 1
	out, inside, all := make([]Topic, k), make([]counts, k), counts{}
	for i, c := range assigned {
		text := ""
		if i < len(products) {
			out[c].Product += 1 / float64(len(products))
			text = products[i]
		} else {
			out[c].Clients += 1 / float64(len(texts))
			text = texts[i-len(products)]
		}
		if inside[c] == nil {
			inside[c] = counts{}
		}
		for _, w := range slices.Compact(slices.Sorted(slices.Values(words(text)))) {
			inside[c][w]++
			all[w]++
		}
	}
	n := float64(len(assigned))
	for c := range out {
		size := (out[c].Product*float64(len(products)) + out[c].Clients*float64(len(texts)))
		var list []Share
		for _, w := range slices.Sorted(maps.Keys(inside[c])) {
			list = append(list, Share{w, inside[c][w] / size, all[w] / n})
		}
		slices.SortStableFunc(list, func(a, b Share) int { return cmp.Compare(b.above(), a.above()) })
		for _, s := range list[:min(len(list), 6)] {
			out[c].Words = append(out[c].Words, s.Value)
		}
	}
	slices.SortStableFunc(out, func(a, b Topic) int { return cmp.Compare(b.Clients, a.Clients) })
	return slices.DeleteFunc(out, func(t Topic) bool { return t.Product+t.Clients == 0 }), nil
}

// above says how much more frequent a word is in a topic than in all texts.
func (s Share) above() float64 { return s.Product * math.Log((s.Product+1e-3)/(s.Clients+1e-3)) }
