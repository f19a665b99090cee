package lm

import "popri/tensor"

// Ignore marks a position whose token is not part of the loss.
const Ignore = int32(-100)

// Row is one training sequence. Labels[t] is Tokens[t] if the token counts in the loss, or [Ignore]; nil counts all.
// The first token is never predicted.
type Row struct {
	Tokens, Labels []int32
	// Second, if above Shared, makes the row two sequences with a common beginning: Tokens[:Second], and
	// Tokens[:Shared] followed by Tokens[Second:], which does not see Tokens[Shared:Second].
	Shared, Second int
}

func (r Row) branches() bool { return r.Second > r.Shared }

// targets returns the flat positions whose hidden state predicts a counted token, those tokens, and the sequence that each
// belongs to: sequences are numbered through all rows.
func targets(rows []Row, width int) (at []int64, tokens []int32, sequence []int) {
	number := 0
	for i, r := range rows {
		for t := 1; t < len(r.Tokens); t++ {
			before := t - 1
			if r.branches() && t == r.Second {
				number++
				before = r.Shared - 1
			}
			if r.Labels == nil || r.Labels[t] != Ignore {
				at = append(at, int64(i*width+before))
				tokens = append(tokens, r.Tokens[t])
				sequence = append(sequence, number)
			}
		}
		number++
	}
	return at, tokens, sequence
}

// branchedInput is [PaddedInput] for rows that may hold two sequences: it adds positions, and a mask of what each token sees.
func branchedInput(s *tensor.Scope, rows []Row, in Input) Input {
	any := false
	for _, r := range rows {
		any = any || r.branches()
	}
	if !any {
		return in
	}
	width := int(in.IDs.Size(1))
	positions := make([]int64, len(rows)*width)
	mask := make([]byte, len(rows)*width*width)
	for i, r := range rows {
		for t := range width {
			position, hidden := t, 0 // hidden: where the own part begins, behind Shared
			if r.branches() && t >= r.Second {
				position, hidden = r.Shared+t-r.Second, r.Second
			}
			positions[i*width+t] = int64(min(position, width-1))
			row := mask[(i*width+t)*width:][:width]
			for u := 0; u <= t; u++ {
				if hidden == 0 || u < r.Shared || u >= hidden {
					row[u] = 1
				}
			}
		}
	}
	in.Positions = s.FromInt64(positions, int64(len(rows)), int64(width))
	in.Mask = s.FromBytes(tensor.Bool, mask, int64(len(rows)), 1, int64(width), int64(width))
	return in
}

func counted(rows []Row) int {
	_, tokens, _ := targets(rows, 0)
	return len(tokens)
}
