package sft

import (
	"slices"
	"testing"

	"popri/methods/policy"
	"popri/methods/sampling"
	"popri/model/lm"
)

func TestBest(t *testing.T) {
	var c policy.Candidates
	for i, text := range []string{"a", "b", "b", "", "c", "d"} {
		row := sampling.Row{Text: text}
		if text != "" {
			row.IDs = []int32{int32(i)}
		}
		c.Rows = append(c.Rows, row)
	}
	scores := []float64{1, 5, 6, 9, 2, 2}
	for share, want := range map[float64][]int{1e-9: {2}, 0.5: {2, 4, 5}, 1: {2, 4, 5, 0}} {
		if got := best(c, scores, share); !slices.Equal(got, want) {
			t.Errorf("a share of %g is %v, want %v", share, got, want)
		}
	}
}

func TestExamples(t *testing.T) {
	c := policy.Candidates{Prompts: []sampling.Prompt{{IDs: []int32{1}}, {IDs: []int32{2, 3}}},
		Rows: []sampling.Row{{Prompt: 0, IDs: []int32{4}}, {Prompt: 1, IDs: []int32{5, 6}}}}
	got := examples(c, []int{1})
	labels := []int32{lm.Ignore, lm.Ignore, 5, 6}
	if len(got) != 1 || !slices.Equal(got[0].Tokens, []int32{2, 3, 5, 6}) || !slices.Equal(got[0].Labels, labels) {
		t.Errorf("%+v", got)
	}
}
