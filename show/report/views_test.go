package report

import (
	"slices"
	"strings"
	"testing"
)

func TestViews(t *testing.T) {
	for _, c := range []struct {
		rounds, selected int
		want             []int
	}{
		{0, 0, nil}, {1, 1, []int{1}}, {3, 2, []int{1, 2, 3}}, {6, 4, []int{1, 2, 3, 4, 5, 6}},
		{20, 0, []int{1, 4, 8, 12, 16, 20}},
		{20, 7, []int{1, 4, 7, 12, 16, 20}}, {20, 20, []int{1, 4, 8, 12, 16, 20}}, {7, 6, []int{1, 2, 3, 4, 6, 7}},
	} {
		if got := Views(c.rounds, c.selected); !slices.Equal(got, c.want) {
			t.Errorf("%d rounds, %d selected: %v, want %v", c.rounds, c.selected, got, c.want)
		}
	}
	p := &page{}
	p.views([]View{{1, [][2]float64{{0.1, 0.2}, {-0.3, 0}}, [2]float64{0.1, 0.05}},
		{2, nil, [2]float64{0.1, 0.05}}})
	if len(p.Views) != 2 || !strings.Contains(string(p.Views[0].Drawing), "<svg") ||
		len(p.Views[0].Legend) != 3 {
		t.Errorf("%d drawings", len(p.Views))
	}
	if p.views(nil); len(p.Views) != 2 {
		t.Errorf("nothing to draw: %d drawings", len(p.Views))
	}
}
