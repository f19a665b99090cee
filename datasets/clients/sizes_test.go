package clients

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestSizesOf(t *testing.T) {
	words := func(s string) int { return len(strings.Fields(s)) }
	got := SizesOf([]Client{{Texts: []string{"a b", "c"}}, {Texts: []string{"a"}},
		{Texts: []string{"a b c", "d e", "f", "g"}}, {}}, words)
	if want := []int{1, 1, 1, 1}; got.Texts != 1.75 || math.Abs(got.TextsSD-1.707825) > 1e-6 ||
		!reflect.DeepEqual(got.Histogram, want) {
		t.Errorf("%+v", got)
	}
	if got := SizesOf([]Client{{Texts: []string{"a"}}}, words); got.Texts != 1 || got.TextsSD != 0 {
		t.Errorf("one client: %+v", got)
	}
	if got := SizesOf(nil, words); !reflect.DeepEqual(got, Sizes{}) {
		t.Errorf("no client: %+v", got)
	}
}
