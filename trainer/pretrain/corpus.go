package pretrain

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"popri/datasets"
	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/tokenizer"
)

// endOfText separates documents.
const endOfText = "<|endoftext|>"

// newline ends a text within a document.
const newline = "\n"

// Corpus is tokenised public text.
type Corpus struct {
	Train, Held [][]int32 // texts without their newline, in source order; Held are the sources kept out for validation
	source      []string  // of Train
	newline     []int32
	eot         int32
}

const (
	// heldFraction of the sources is held out of training to measure the loss.
	heldFraction = 0.01
	// Texts with fewer sources than leastSources, such as books, are held out in stretches of successive texts.
	leastSources, stretch = 200, 16
)

// NewCorpus tokenises texts. The sources to hold out are chosen by a hash of their name, and stretches of texts by a
// hash of source and position; the last stretch is held out where the hash chooses none.
func NewCorpus(texts []datasets.Text, tok *tokenizer.Tokenizer) *Corpus {
	eot, _ := tok.ID(endOfText)
	c := &Corpus{newline: tok.Encode(newline), eot: eot}
	held := heldOut(texts)
	for i, t := range texts {
		ids := tok.Encode(t.Text)
		if held[i] {
			c.Held = append(c.Held, ids)
			continue
		}
		c.Train = append(c.Train, ids)
		c.source = append(c.source, t.Source)
	}
	return c
}

// heldOut says of each text whether it is held out.
func heldOut(texts []datasets.Text) []bool {
	sources := numeric.Set(numeric.Map(texts, func(t datasets.Text) string { return t.Source }))
	held, none := make([]bool, len(texts)), true
	for i, t := range texts {
		h := fnv.New32a()
		h.Write([]byte(t.Source))
		if len(sources) < leastSources {
			fmt.Fprintf(h, "#%d", i/stretch)
		}
		held[i] = float64(h.Sum32()) < heldFraction*(1<<32)
		none = none && !held[i]
	}
	if none && len(texts) > 1 {
		for i := (len(texts) - 1) / stretch * stretch; i < len(texts); i++ {
			held[i] = i > 0
		}
	}
	return held
}

// Tokens returns the number of tokens of the training texts.
func (c *Corpus) Tokens() int {
	return numeric.Sum(c.Train, func(t []int32) int { return len(t) + len(c.newline) })
}

// epoch lays out all training texts once as documents and cuts the stream into rows of length tokens.
func (c *Corpus) epoch(random *rand.Rand, length int) []lm.Row {
	// Runs of two to eight successive texts of one source; the texts of every other run go into the mixed pool.
	var runs [][]int
	var mixed []int
	for i := 0; i < len(c.Train); {
		n := 2 + random.IntN(7)
		j := i + 1
		for j < len(c.Train) && j-i < n && c.source[j] == c.source[i] {
			j++
		}
		run := make([]int, 0, j-i)
		for k := i; k < j; k++ {
			run = append(run, k)
		}
		if random.IntN(2) == 0 {
			mixed = append(mixed, run...)
		} else {
			runs = append(runs, run)
		}
		i = j
	}
	random.Shuffle(len(mixed), func(a, b int) { mixed[a], mixed[b] = mixed[b], mixed[a] })
	for i := 0; i < len(mixed); {
		n := min(2+random.IntN(7), len(mixed)-i)
		runs = append(runs, mixed[i:i+n])
		i += n
	}
	random.Shuffle(len(runs), func(a, b int) { runs[a], runs[b] = runs[b], runs[a] })
	var stream []int32
	for _, run := range runs {
		stream = append(stream, c.eot)
		for _, i := range run {
			stream = append(append(stream, c.Train[i]...), c.newline...)
		}
	}
	return cut(stream, length)
}

// cut divides a stream into rows of length tokens, without the rest.
func cut(stream []int32, length int) (rows []lm.Row) {
	for i := 0; i+length <= len(stream); i += length {
		rows = append(rows, lm.Row{Tokens: stream[i : i+length]})
	}
	return rows
}

// heldRows are the validation texts, several to a document; what does not fill a row is left out, unless it is all.
func (c *Corpus) heldRows(length int) []lm.Row {
	var stream []int32
	for i, t := range c.Held {
		if i%4 == 0 {
			stream = append(stream, c.eot)
		}
		stream = append(append(stream, t...), c.newline...)
	}
	rows := cut(stream, length)
	if len(rows) == 0 && len(stream) > 1 {
		rows = append(rows, lm.Row{Tokens: stream})
	}
	return rows
}
