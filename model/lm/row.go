package lm

import (
	"slices"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// Ignore marks a position whose token is not part of the loss.
const Ignore = int32(-100)

// Row is one training sequence. Labels[t] is Tokens[t] if the token counts in the loss, or [Ignore]; nil counts all.
// The first token is never predicted.
type Row struct {
	Tokens, Labels []int32
	Class          int32 // the row's label for a classifier, an index of [Config.Labels]
	// Branches, if any, make the row several sequences with a common beginning, Tokens[:Shared]. The first one continues
	// with Tokens[Shared:Branches[0]], the next one with Tokens[Branches[0]:Branches[1]], and the last one with the
	// rest. They do not see each other. Each sequence must fit the model's context; the row may be longer.
	Shared   int
	Branches []int
}

// NewRow makes a row of a prompt, whose tokens do not count, and its completions, each a sequence with the prompt.
func NewRow(prompt []int32, completions ...[]int32) Row {
	r := Row{Tokens: slices.Clone(prompt), Labels: slices.Repeat([]int32{Ignore}, len(prompt)), Shared: len(prompt)}
	for i, c := range completions {
		if i > 0 {
			r.Branches = append(r.Branches, len(r.Tokens))
		}
		r.Tokens, r.Labels = append(r.Tokens, c...), append(r.Labels, c...)
	}
	return r
}

// targets returns the flat positions whose hidden state predicts a counted token, those tokens, and the sequence that
// each belongs to, of rows that begin at flat positions: sequences are numbered through all rows.
func targets(rows []Row, starts []int64) (positions []int64, tokens []int32, sequence []int) {
	number := 0
	for i, r := range rows {
		left := r.Branches
		for t := 1; t < len(r.Tokens); t++ {
			before := t - 1
			if len(left) > 0 && t == left[0] {
				left = left[1:]
				number++
				before = r.Shared - 1
			}
			if r.Labels == nil || r.Labels[t] != Ignore {
				positions = append(positions, starts[i]+int64(before))
				tokens = append(tokens, r.Tokens[t])
				sequence = append(sequence, number)
			}
		}
		number++
	}
	return positions, tokens, sequence
}

// rowStarts are the flat positions at which rows begin.
func (in Input) rowStarts(rows int) []int64 {
	if len(in.starts) > 0 {
		return in.starts[:rows]
	}
	return numeric.Tabulate(rows, func(i int) int64 { return int64(i) * in.IDs.Size(1) })
}

// rowsInput lays rows out: packed into one, where attention takes them so, or padded.
func (m *Model) rowsInput(s *tensor.Scope, rows []Row) Input {
	if m.Config.twoWay() {
		return wholeRows(s, rows, paddedRows(s, rows, 0, m.Config.Context))
	}
	if !m.byFormula() && m.Config.AttnCap == 0 && s.CanAttendHeads(m.Compute, int64(m.Config.HeadDim())) {
		if in := packedRows(s, rows); len(in.starts) > 0 {
			return in
		}
	}
	return paddedRows(s, rows, 0, m.Config.Context)
}

// packedRows packs the rows into one, without padding between them. The number of tokens is rounded up to whole tiles of
// the matrix unit. Without one it is rounded further, because the library compiles a kernel for each new size of a
// product. The result has no starts where padded rows would hardly be longer.
func packedRows(s *tensor.Scope, rows []Row) (in Input) {
	round, total := 64, 0
	if tensor.MatrixUnit() {
		round = 16
	}
	for _, r := range rows {
		total += len(r.Tokens)
		in.longest = max(in.longest, len(r.Tokens))
		if len(r.Tokens) == 0 {
			return Input{}
		}
	}
	whole := roundUp(total, round)
	if whole >= len(rows)*in.longest {
		return Input{}
	}
	several := slices.ContainsFunc(rows, Row.several)
	rows = slices.Clone(rows)
	for left := whole - total; left > 0; left -= in.longest { // the rest becomes rows that nobody reads
		rows = append(rows, Row{Tokens: make([]int32, min(left, in.longest))})
	}
	ids, positions, at := make([]int64, whole), make([]int64, whole), 0
	square := 0
	if several {
		square = in.longest * in.longest
	}
	mask := make([]byte, len(rows)*square)
	for i, r := range rows {
		in.starts = append(in.starts, int64(at))
		r.order(positions[at:][:len(r.Tokens)], mask[i*square:][:square], in.longest)
		for _, id := range r.Tokens {
			ids[at] = int64(id)
			at++
		}
	}
	in.starts = append(in.starts, int64(at))
	in.IDs, in.Positions = s.FromInt64(ids, 1, int64(whole)), s.FromInt64(positions, 1, int64(whole))
	if several {
		in.Mask = s.FromBytes(tensor.Bool, mask, int64(len(rows)), 1, int64(in.longest), int64(in.longest))
	}
	return in
}

// several reports whether the row holds several sequences.
func (r Row) several() bool { return len(r.Branches) > 0 }

// order writes the positions of the row's tokens. There may be more positions than tokens; the last sequence then
// continues. If mask is not empty, it receives ones where a token (its row, width long) sees another one.
func (r Row) order(positions []int64, mask []byte, width int) {
	left, hidden := r.Branches, 0 // hidden: where the token's own sequence begins, behind Shared; 0 for the first one
	for t := range positions {
		if len(left) > 0 && t == left[0] {
			left, hidden = left[1:], t
		}
		positions[t] = int64(t)
		if hidden > 0 {
			positions[t] = int64(r.Shared + t - hidden)
		}
		if len(mask) == 0 {
			continue
		}
		row := mask[t*width:][:t+1]
		for u := range row {
			if hidden == 0 || u < r.Shared || u >= hidden {
				row[u] = 1
			}
		}
	}
}

// paddedRows is [PaddedInput] of rows that continue the given number of tokens. If there are such tokens, or if a row
// holds several sequences, it adds positions, below the model's context, and the mask within each row.
func paddedRows(s *tensor.Scope, rows []Row, before, context int) Input {
	in := PaddedInput(s, numeric.Map(rows, func(r Row) []int32 { return r.Tokens }), context-before)
	if before == 0 && !slices.ContainsFunc(rows, Row.several) {
		return in
	}
	width := int(in.IDs.Size(1))
	positions := make([]int64, len(rows)*width)
	mask := make([]byte, len(rows)*width*width)
	for i, r := range rows {
		at := positions[i*width:][:width]
		r.order(at, mask[i*width*width:], width)
		for t := range at { // padding may be beyond the context
			at[t] = int64(before + min(int(at[t]), width-1, context-before-1))
		}
	}
	in.Positions = s.FromInt64(positions, int64(len(rows)), int64(width))
	in.Mask = s.FromBytes(tensor.Bool, mask, int64(len(rows)), 1, int64(width), int64(width))
	return in
}
