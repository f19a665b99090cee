package judge

import (
	"math"
	"strings"
	"unicode"
)

// leastRun is the length in words from which a run of words in common counts. Shorter ones are common phrases.
const leastRun = 8

// run is the longest run of words that a client's texts have in common with the synthetic set and not with public text.
type run struct {
	Words   int // 0 for fewer than leastRun
	Text    string
	Product int // the index of the synthetic set's text
}

// index finds runs of words in texts.
type index struct {
	words vocabulary
	texts [][]uint32
	at    map[uint64][]position // by the hash of leastRun successive words
}

type position struct{ text, word int32 }

func newIndex(v vocabulary, texts []string) *index {
	x := &index{words: v, at: map[uint64][]position{}}
	for i, text := range texts {
		ids := v.ids(text, true)
		x.texts = append(x.texts, ids)
		for j := range len(ids) - leastRun + 1 {
			h := hash(ids[j : j+leastRun])
			x.at[h] = append(x.at[h], position{int32(i), int32(j)})
		}
	}
	return x
}

// hash is FNV-1a over the words' numbers; equal hashes are compared word by word.
func hash(ids []uint32) uint64 {
	h := uint64(14695981039346656037)
	for _, id := range ids {
		h = (h ^ uint64(id)) * 1099511628211
	}
	return h
}

// longest finds the longest run of the first most words of a client's texts that the index has, too, and public text has
// not, and how many of the words there are.
func (x *index) longest(texts []string, most int, public *index) (found run, counted int) {
	for _, text := range texts {
		ids := x.words.ids(text, false)
		ids = ids[:min(len(ids), max(0, most-counted))]
		counted += len(ids)
		for i := 0; i+leastRun <= len(ids); i++ {
			for _, p := range x.at[hash(ids[i:i+leastRun])] {
				n := common(ids[i:], x.texts[p.text][p.word:])
				if n >= leastRun && n > found.Words && !public.has(ids[i:i+n]) {
					found = run{Words: n, Text: strings.Join(words(text)[i:i+n], " "), Product: int(p.text)}
				}
			}
		}
	}
	return found, counted
}

func common(a, b []uint32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] || a[i] == 0 {
			return i
		}
	}
	return min(len(a), len(b))
}

// has reports whether a run of at least leastRun words is in one of the texts.
func (x *index) has(ids []uint32) bool {
	for _, p := range x.at[hash(ids[:leastRun])] {
		if common(ids, x.texts[p.text][p.word:]) == len(ids) {
			return true
		}
	}
	return false
}

// runs are the longest runs of all members and of all controls.
type runs struct {
	members, controls []run
	most              int       // words of a client that were looked at
	whole             []run     // of the members' texts, however long they are
	times             []float64 // how many times most words each member has, at least 1
}

// runs finds the longest runs. All clients count with their first words, as many as half of the clients of the group
// with the shorter texts have, so that no group has more chances; clients with fewer words count with what they have.
func (in Input) runs() runs {
	length := func(c Client) int { return countWords(c.Texts...) }
	most := min(median(in.Members, length), median(in.Controls, length))
	v := vocabulary{}
	product, public := newIndex(v, in.Product), newIndex(v, in.Public)
	r := runs{most: most}
	for _, c := range in.Members {
		whole, words := product.longest(c.Texts, math.MaxInt, public)
		first := whole
		if words > most {
			first, _ = product.longest(c.Texts, most, public)
		}
		r.members, r.whole = append(r.members, first), append(r.whole, whole)
		r.times = append(r.times, max(1, float64(words)/float64(max(1, most))))
	}
	for _, c := range in.Controls {
		first, _ := product.longest(c.Texts, most, public)
		r.controls = append(r.controls, first)
	}
	return r
}

// words are a text's words in lower case, without signs around them.
func words(text string) []string {
	list := strings.Fields(strings.ToLower(text))
	out := list[:0]
	for _, w := range list {
		if w = strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// vocabulary numbers words.
type vocabulary map[string]uint32

// ids are the numbers of a text's words. New words get a number if add is set, and 0 otherwise, which no word has.
func (v vocabulary) ids(text string, add bool) []uint32 {
	list := words(text)
	out := make([]uint32, len(list))
	for i, w := range list {
		id, ok := v[w]
		if !ok && add {
			id = uint32(len(v) + 1)
			v[strings.Clone(w)] = id
		}
		out[i] = id
	}
	return out
}
