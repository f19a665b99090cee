package clients

import (
	"reflect"
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		f    Filter
		text string
		want string
		n    Filtered
	}{
		{Filter{}, "a  b\n 12 34.", "a  b\n 12 34.", Filtered{}},
		{Filter{NonLetters: 0.3}, "I rise  to speak. 12 - 34 = (5)! So be it.", "I rise to speak. So be it.",
			Filtered{0, 1}},
		{Filter{NonLetters: 0.3}, "Untouched  text.\nIt stays.", "Untouched  text.\nIt stays.", Filtered{}},
		{Filter{NonLetters: 0.3}, "H.R. 1234\nThank you. (Vote 45, 46)", "Thank you.", Filtered{0, 3}},
		{Filter{NonLetters: 0.3}, `He said "no." Then 7.5 7.5 7.5 7.5 came. Ça va?`, `He said "no." Ça va?`,
			Filtered{0, 1}},
		{Filter{NonLetters: 0.3}, "1 2 3", "", Filtered{0, 1}},
		{Filter{Drop: []string{`\[[^\]]*\]`, `(?i)mr\. speaker, `}}, "Mr. Speaker, I yield [applause] the floor.",
			"I yield the floor.", Filtered{2, 0}},
		{Filter{NonLetters: 0.3, Drop: []string{`\d`}}, "Room 12 is 3 doors down.", "Room is doors down.",
			Filtered{3, 0}},
	} {
		if err := c.f.validate(); err != nil {
			t.Fatal(err)
		}
		var n Filtered
		if got := c.f.apply(c.text, &n); got != c.want || n != c.n {
			t.Errorf("%+v: %q becomes %q (%+v), want %q (%+v)", c.f, c.text, got, n, c.want, c.n)
		}
	}
	for _, f := range []Filter{{NonLetters: -1}, {NonLetters: 1}, {Drop: []string{"("}}, {Drop: []string{"a*"}}} {
		if err := f.validate(); err == nil {
			t.Errorf("%+v is no error", f)
		}
	}
}

func FuzzSentences(f *testing.F) {
	for _, s := range []string{"", "a. b", "…  \n\n x", "a.”  B", "\xff. \xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := strings.Join(sentences(text), ""); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

// A text of which nothing is left is left out.
func TestFilteredImport(t *testing.T) {
	content := lines(t, map[string]any{"client_id": "a", "text": "Fine words here. 1 2 3."},
		map[string]any{"client_id": "a", "text": "4 5 6"}, map[string]any{"client_id": "b", "text": "7 8 9"})
	o := ImportOptions{Shape: Shape{Filter: Filter{NonLetters: 0.3, Drop: []string{"here"}}},
		Shares: [3]float64{1, 0, 0}}
	p, m, err := importText(t, "a.jsonl", content, o)
	if err != nil || !reflect.DeepEqual(written(p), []string{"train/a: Fine words ."}) ||
		!reflect.DeepEqual(m.LeftOut, LeftOut{{nothingLeft, 2, 1}}) || *m.Filtered != (Filtered{1, 3}) {
		t.Errorf("%q, %+v, %+v, %v", written(p), m.LeftOut, m.Filtered, err)
	}
}
