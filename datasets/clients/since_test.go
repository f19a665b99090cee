package clients

import (
	"reflect"
	"testing"
)

func TestSince(t *testing.T) {
	p := &Population{Name: "n", Unit: "u", Clients: []Client{
		{ID: "old", Split: Train, Date: "1944-12-31", Texts: []string{"a"}},
		{ID: "first day", Split: Train, Date: "1945-01-01", Texts: []string{"b", "c"}},
		{ID: "undated", Split: Test, Texts: []string{"d"}},
		{ID: "both", Split: Test, Texts: []string{"e", "f", "g", "h"}, Labels: []string{"x", "y", "y", "x"},
			Dates: []string{"1944-05-01", "1950-01-01", "1950-01-01", ""}},
		{ID: "differing", Split: Validation, Label: "l", Texts: []string{"i", "j", "k"},
			Dates: []string{"1940-01-01", "1946-01-01", "1947-01-01"}},
		{ID: "none left", Split: Train, Texts: []string{"l", "m"}, Dates: []string{"1900-01-01", ""}},
	}}
	want := &Population{Name: "n", Unit: "u", all: p, Clients: []Client{
		{ID: "first day", Split: Train, Date: "1945-01-01", Texts: []string{"b", "c"}},
		{ID: "both", Split: Test, Date: "1950-01-01", Label: "y", Texts: []string{"f", "g"}},
		{ID: "differing", Split: Validation, Label: "l", Texts: []string{"j", "k"},
			Dates: []string{"1946-01-01", "1947-01-01"}},
	}}
	if got := p.Since("1945"); !reflect.DeepEqual(got, want) {
		t.Errorf("since 1945: %+v", got.Clients)
	}
	if got := p.Since("1945-01-02"); len(got.Clients) != 2 {
		t.Errorf("since the second day: %+v", got.Clients)
	}
	if len(p.Clients) != 6 || len(p.Clients[3].Texts) != 4 {
		t.Error("the population itself was changed")
	}
}
