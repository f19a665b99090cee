package accountant

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Tree is a binary tree over the steps of a training run. Each node is released with noise: the sum of the clipped
// updates of its leaves (Kairouz et al. 2021, DP-FTRL). A node is released once, when all of its leaves are known.
type Tree struct {
	// Steps is the number of leaves, with the empty ones that complete the tree.
	Steps int
	// RealSteps is the number of leaves that clients contribute to, from the first; 0 means all. It is less than Steps
	// where empty leaves complete the tree for a less noisy last sum.
	RealSteps int
	// MaxParticipation is the largest number of leaves that one client contributes to.
	MaxParticipation int
	// MinSeparation is the least number of leaves between two contributions of one client.
	MinSeparation int
	// Periodic says that contributions are exactly MinSeparation apart: every epoch asks the clients in the same order.
	Periodic bool
}

// MostLeaves bounds the trees of ledgers.
const MostLeaves = 1 << 20

// NodeStart is the first leaf of the node that leaf t, from 1, completes and that sums of the first leaves are made of:
// the node has as many leaves as the lowest binary digit of t says. The nodes of the binary digits of t, each beginning
// where the one before ends, make up the sum of the first t leaves, whose noise has popcount(t) times the variance of a
// node's.
//
//	t              1  2  3  4  5  6  7  8
//	NodeStart(t)   1  1  3  1  5  5  7  1
func NodeStart(t int) int { return t - t&-t + 1 }

// PrefixSquares is the largest number of these nodes, of the first t leaves, that one leaf is in: ⌊log2 t⌋ + 1, as for
// all nodes of the tree ([Tree.SumSquares] with one participation). It is the squared L2 sensitivity of their release.
func PrefixSquares(t int) int { return bits.Len(uint(t)) }

// mostTreeWork bounds the loops of SumSquares to about a minute.
const mostTreeWork = 1 << 36

// SumSquares returns the largest sum, over all nodes, of the square of one client's contributions to the node, when
// each contribution has norm 1: the squared L2 sensitivity of the whole tree, whose release is one Gaussian release
// with it.
func (t Tree) SumSquares() (int, error) {
	real := cmp.Or(t.RealSteps, t.Steps)
	switch {
	case t.Steps < 1 || t.Steps > 1<<30:
		return 0, fmt.Errorf("accountant: a tree of %d steps", t.Steps)
	case real < 0 || real > t.Steps:
		return 0, fmt.Errorf("accountant: %d real steps of %d", t.RealSteps, t.Steps)
	case t.MaxParticipation < 1:
		return 0, fmt.Errorf("accountant: a client takes part at most %d times", t.MaxParticipation)
	case t.MinSeparation < 0:
		return 0, fmt.Errorf("accountant: %d steps between contributions", t.MinSeparation)
	}
	gap := min(t.MinSeparation, real)
	most := min(t.MaxParticipation, (real+gap)/(gap+1))
	if t.Periodic {
		return t.periodic(real, gap, most)
	}
	if g := float64(gap + 1); float64(most)*float64(most)*g*g*g > mostTreeWork {
		return 0, fmt.Errorf("%w: a tree with %d contributions at least %d steps apart takes too long to search",
			ErrNotApplicable, most, gap)
	}
	search := treeSearch{gap: gap, most: most, real: real, whole: map[int]placements{}}
	// The leaves form complete trees, the largest first, as the binary digits of their number say.
	all := search.none()
	for start, rest := 0, t.Steps; rest > 0; {
		size := 1 << (bits.Len(uint(rest)) - 1)
		all = search.join(all, start, search.tree(start, size), size)
		start, rest = start+size, rest-size
	}
	best := 0
	for m := range all.value {
		best = max(best, all.value[m][0])
	}
	return best, nil
}

// periodic tries every first step.
func (t Tree) periodic(real, gap, most int) (int, error) {
	if float64(gap+1)*float64(most)*float64(bits.Len(uint(t.Steps))) > mostTreeWork {
		return 0, fmt.Errorf("%w: a tree with %d contributions %d steps apart takes too long to search",
			ErrNotApplicable, most, gap)
	}
	best := 0
	for first := 0; first <= gap && first < real; first++ {
		total := 0
		for size := 1; size <= t.Steps; size *= 2 {
			node, count := -1, 0
			for k := range most {
				at := first + k*(gap+1)
				if at >= real || at/size*size+size > t.Steps {
					break
				}
				if at/size != node {
					total += count * count
					node, count = at/size, 0
				}
				count++
			}
			total += count * count
		}
		best = max(best, total)
	}
	return best, nil
}

// placements holds, for m contributions to a range of leaves, with at least l leaves free before the first and r after
// the last, the best sum of squares over the nodes inside: value[m][l·(gap+1)+r], or impossible.
type placements struct{ value [][]int }

const impossible = -1 << 40

type treeSearch struct {
	gap, most, real int
	whole           map[int]placements // of complete trees before the last real leaf, by size
}

// none is the value of some leaves without a contribution.
func (s *treeSearch) none() placements { return placements{[][]int{make([]int, (s.gap+1)*(s.gap+1))}} }

// tree returns the placements in the complete tree of a power of two leaves from start.
func (s *treeSearch) tree(start, size int) placements {
	if start >= s.real {
		return s.none()
	}
	full := start+size <= s.real
	if full {
		if p, ok := s.whole[size]; ok {
			return p
		}
	}
	var p placements
	if size == 1 {
		p = s.none()
		one := slices.Repeat([]int{impossible}, (s.gap+1)*(s.gap+1))
		one[0] = 1
		p.value = append(p.value, one)
	} else {
		p = s.join(s.tree(start, size/2), size/2, s.tree(start+size/2, size/2), size/2)
		for m, v := range p.value {
			for i := range v {
				if v[i] > 0 {
					v[i] += m * m
				}
			}
		}
	}
	if full {
		s.whole[size] = p
	}
	return p
}

// join puts two ranges of leftSize and rightSize leaves side by side.
func (s *treeSearch) join(left placements, leftSize int, right placements, rightSize int) placements {
	w := s.gap + 1
	most := min(s.most, len(left.value)+len(right.value)-2)
	out := placements{make([][]int, most+1)}
	out.value[0] = make([]int, w*w)
	for m := 1; m <= most; m++ {
		v := slices.Repeat([]int{impossible}, w*w)
		for a := max(0, m-len(right.value)+1); a <= min(m, len(left.value)-1); a++ {
			b := m - a
			for l := range w {
				row := v[l*w : l*w+w]
				switch {
				case a == 0:
					from := max(0, l-leftSize) * w
					raise(row, right.value[b][from:from+w], 0)
				case b == 0:
					first := left.value[a][l*w : l*w+w]
					for r := range row {
						row[r] = max(row[r], first[max(0, r-rightSize)])
					}
				default:
					for x, f := range left.value[a][l*w : l*w+w] { // x leaves after the first range's last contribution
						if f > 0 {
							from := (s.gap - x) * w
							raise(row, right.value[b][from:from+w], f)
						}
					}
				}
			}
		}
		out.value[m] = v
	}
	return out
}

// raise sets each element of row to at least the value plus more. Sums with impossible stay below every possible value.
func raise(row, values []int, more int) {
	values = values[:len(row)]
	for i, v := range values {
		row[i] = max(row[i], v+more)
	}
}

// TreeEvent is the release of trees with the given sum of squares, sigma being the standard deviation of the noise in
// each node / the norm bound of one contribution.
func TreeEvent(sigma float64, sumSquares int) Event {
	return Event{Sigma: sigma / math.Sqrt(float64(sumSquares)), Count: 1}
}
