package pretrain

import (
	"hash/fnv"
	"math/rand/v2"

	"popri/datasets"
	"popri/lm"
	"popri/tokenizer"
)

// EndOfText separates documents.
const EndOfText = "<|endoftext|>"

// Newline ends a text within a document.
const Newline = "\n"

// Corpus is tokenised public text.
type Corpus struct {
	Train, Held [][]int32 // texts without their newline, in source order; Held are the sources kept out for validation
	source      []string  // of Train
	newline     []int32
	eot         int32
}

// heldShare of the sources is held out of training to measure the loss.
const heldShare = 0.01

// NewCorpus tokenises texts. The sources to hold out are chosen by a hash of their name.
func NewCorpus(texts []datasets.Text, tok *tokenizer.Tokenizer) *Corpus {
	eot, _ := tok.ID(EndOfText)
	c := &Corpus{newline: tok.Encode(Newline), eot: eot}
	for _, t := range texts {
		ids := tok.Encode(t.Text)
		h := fnv.New32a()
		h.Write([]byte(t.Source))
		if float64(h.Sum32()) < heldShare*(1<<32) {
			c.Held = append(c.Held, ids)
			continue
		}
		c.Train = append(c.Train, ids)
		c.source = append(c.source, t.Source)
	}
	return c
}

// Tokens returns the number of tokens of the training texts.
func (c *Corpus) Tokens() int {
	n := 0
	for _, t := range c.Train {
		n += len(t) + len(c.newline)
	}
	return n
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
	var rows []lm.Row
	for i := 0; i+length <= len(stream); i += length {
		rows = append(rows, lm.Row{Tokens: stream[i : i+length]})
	}
	return rows
}

// heldRows are the validation texts, several to a document.
func (c *Corpus) heldRows(length int) []lm.Row {
	var stream []int32
	for i, t := range c.Held {
		if i%4 == 0 {
			stream = append(stream, c.eot)
		}
		stream = append(append(stream, t...), c.newline...)
	}
	var rows []lm.Row
	for i := 0; i+length <= len(stream); i += length {
		rows = append(rows, lm.Row{Tokens: stream[i : i+length]})
	}
	return rows
}
