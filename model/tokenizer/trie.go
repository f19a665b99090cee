package tokenizer

import (
	"slices"
	"sort"
)

// trie finds the pieces that a text begins with. The children of a node follow each other, ascending by their byte.
type trie struct {
	nodes []trieNode
	root  [256]int32 // the nodes of first bytes, 0 for none
}

type trieNode struct {
	children, id int32 // the first child, and the piece that ends here or -1
	count        uint16
	label        byte
}

// newTrie needs as many nodes as the pieces have different beginnings: never more than they have bytes.
func newTrie(ids map[string]int32) *trie {
	pieces := make([]string, 0, len(ids))
	for p := range ids {
		if p != "" {
			pieces = append(pieces, p)
		}
	}
	slices.Sort(pieces)
	t := &trie{nodes: []trieNode{{id: -1}}}
	// Level by level: the pieces from first to last share their first depth bytes, which lead to node.
	type open struct {
		node        int32
		first, last int
		depth       int
	}
	todo := []open{{0, 0, len(pieces), 0}}
	for len(todo) > 0 {
		o := todo[0]
		todo = todo[1:]
		start := len(t.nodes)
		for first := o.first; first < o.last; {
			if len(pieces[first]) == o.depth { // ends here; it is the first, for it is the shortest
				t.nodes[o.node].id = ids[pieces[first]]
				first++
				continue
			}
			label := pieces[first][o.depth]
			last := first + sort.Search(o.last-first, func(i int) bool { return pieces[first+i][o.depth] > label })
			todo = append(todo, open{int32(len(t.nodes)), first, last, o.depth + 1})
			if o.node == 0 {
				t.root[label] = int32(len(t.nodes))
			}
			t.nodes = append(t.nodes, trieNode{id: -1, label: label})
			first = last
		}
		t.nodes[o.node].children, t.nodes[o.node].count = int32(start), uint16(len(t.nodes)-start)
	}
	return t
}

// prefixes calls visit for the pieces that text begins with, from the shortest on.
func (t *trie) prefixes(text string, visit func(length int, id int32)) {
	if text == "" {
		return
	}
	at := t.root[text[0]]
	for i := 1; at != 0; i++ {
		n := &t.nodes[at]
		if n.id >= 0 {
			visit(i, n.id)
		}
		if i == len(text) {
			return
		}
		at = t.child(n, text[i])
	}
}

func (t *trie) child(n *trieNode, label byte) int32 {
	low, high := n.children, n.children+int32(n.count)
	for low < high {
		mid := (low + high) / 2
		switch c := t.nodes[mid].label; {
		case c == label:
			return mid
		case c < label:
			low = mid + 1
		default:
			high = mid
		}
	}
	return 0
}
