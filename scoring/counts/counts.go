// Package counts is the question for clients' counts of tokens and of pairs of neighbouring tokens, as one bounded
// vector.
//
//	c(v)     how often token v is in the client's rows, their first tokens aside       N values
//	c(u,v)   how often v follows u in them                                             N² values
//	v_i = ( √(1−s) · c(·)/‖c(·)‖₂ , √s · c(·,·)/‖c(·,·)‖₂ )                            ‖v_i‖₂ ≤ 1
//
// A client counts once, however much text it has. Tokens besides the N, and pairs with one of them, are left out; a part
// without any count is zero. Package fedsim/local holds the clients' rows.
package counts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"popri/scoring/update"
)

// Question asks for the counts of the same tokens. It implements query.Question.
type Question struct {
	Tokens []int32 // N different ones, in ascending order; they are public
	Share  float64 // s, from 0 to 1: what pairs have of the squared length
	Rows   string  // identifies how texts become rows: the tokenizer, and where rows end
}

// Name implements query.Question.
func (q Question) Name() string { return fmt.Sprintf("counts/tokens and pairs, share %g", q.Share) }

// Named reports whether a question's name is the name of a [Question].
func Named(name string) bool { return strings.HasPrefix(name, "counts/") }

// Key implements query.Question.
func (q Question) Key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%v", q.Rows, q.Tokens)
	return hex.EncodeToString(h.Sum(nil))
}

// Len implements query.Question: a value for each token, in their order, and one for each pair, in the order of its
// first token and then of its second.
func (q Question) Len() int { return len(q.Tokens) * (1 + len(q.Tokens)) }

// Bound implements query.Question.
func (q Question) Bound() float64 { return 1 }

// Pair is the index of the pair of the u-th and the v-th token.
func (q Question) Pair(u, v int) int { return len(q.Tokens)*(1+u) + v }

// Vector is a client's answer: the values that are not zero, with their indices in ascending order.
func (q Question) Vector(rows [][]int32) (index []int, values []float64) {
	tokens, pairs := map[int]float64{}, map[int]float64{}
	for _, row := range rows {
		before, ok := 0, false
		for i, id := range row {
			at, is := slices.BinarySearch(q.Tokens, id)
			if i > 0 && is {
				tokens[at]++
				if ok {
					pairs[q.Pair(before, at)]++
				}
			}
			before, ok = at, is
		}
	}
	for _, part := range []struct {
		counts map[int]float64
		share  float64
	}{{tokens, 1 - q.Share}, {pairs, q.Share}} {
		squares := 0.0
		for _, c := range part.counts {
			squares += c * c // whole numbers: in any order, the same
		}
		for _, at := range slices.Sorted(maps.Keys(part.counts)) {
			index, values = append(index, at), append(values, part.counts[at]*math.Sqrt(part.share/squares))
		}
	}
	update.Clip(values, q.Bound()) // for rounding alone
	return index, values
}
