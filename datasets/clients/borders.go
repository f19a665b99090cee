package clients

import (
	"crypto/sha256"
	"slices"
	"strings"

	"popri/datasets/minhash"
)

// How duplicates over the borders between public text, test, validation and train are found.
const (
	NoDeduplication = "none"
	ExactDuplicates = "exact" // equal but for white space and the case of letters
	NearDuplicates  = "near"  // similar by MinHash, see package minhash
)

// Deduplications lists the kinds.
var Deduplications = []string{NoDeduplication, ExactDuplicates, NearDuplicates}

// border finds texts that were added on its stricter side.
type border interface {
	add(text string, of uint8)
	find(text string) (of uint8, ok bool)
}

// exactBorder has the hashes of texts.
type exactBorder map[[16]byte]uint8

func exactKey(text string) [16]byte {
	sum := sha256.Sum256([]byte(strings.Join(strings.Fields(strings.ToLower(text)), " ")))
	return [16]byte(sum[:16])
}

func (b exactBorder) add(text string, of uint8) {
	if _, there := b[exactKey(text)]; !there {
		b[exactKey(text)] = of
	}
}

func (b exactBorder) find(text string) (of uint8, ok bool) {
	of, ok = b[exactKey(text)]
	return of, ok
}

type nearBorder struct{ *minhash.Index }

func (b nearBorder) add(text string, of uint8)            { b.Add(minhash.Sign(text), of) }
func (b nearBorder) find(text string) (of uint8, ok bool) { return b.Find(minhash.Sign(text)) }

// sides are in the order in which they keep a text: what is public stays nobody's, and what tests a model stays out of
// its training.
var sides = []string{"public text", string(Test), string(Validation), string(Train)}

// borders takes texts out that repeat a text of a stricter side. The same text twice on one side stays.
func (i *importer) borders(shaped map[Split]*spool) (map[Split]*spool, error) {
	if i.o.Deduplicate == NoDeduplication {
		return shaped, nil
	}
	var b border = exactBorder{}
	if i.o.Deduplicate == NearDuplicates {
		b = nearBorder{minhash.NewIndex()}
	}
	for n, t := range i.o.Public {
		if n%1024 == 0 {
			i.o.Progress("public text", int64(n), int64(len(i.o.Public)))
			if err := i.ctx.Err(); err != nil {
				return nil, err
			}
		}
		b.add(t, 0)
	}
	var total, done int64
	for _, s := range Splits {
		total += shaped[s].clients
	}
	kept := map[Split]*spool{}
	for side := 1; side < len(sides); side++ {
		split := Split(sides[side])
		out, err := newSpool(i.dir)
		if err != nil {
			return nil, err
		}
		kept[split] = out
		counts := make([]int, side)
		err = shaped[split].each(func(c *imported) error {
			if done++; done%256 == 0 {
				i.o.Progress("duplicates", done, total)
				if err := i.ctx.Err(); err != nil {
					return err
				}
			}
			c.texts = slices.DeleteFunc(c.texts, func(t importedText) bool {
				of, repeats := b.find(t.text)
				if repeats {
					counts[of]++
				}
				return repeats
			})
			if len(c.texts) == 0 {
				i.m.leaveOut(onlyDuplicates, 0, 1)
				return nil
			}
			if !i.limit(c) {
				return nil
			}
			return out.add(c)
		})
		if err == nil && split != Train { // after the side is complete: it is compared with the stricter sides alone
			err = out.each(func(c *imported) error {
				for _, t := range c.texts {
					b.add(t.text, uint8(side))
				}
				return i.ctx.Err()
			})
		}
		if err != nil {
			return nil, err
		}
		for of, n := range counts {
			if of > 0 || i.o.PublicFile != "" {
				i.m.Duplicates = append(i.m.Duplicates, Duplicates{split, sides[of], n})
			}
		}
	}
	return kept, nil
}
