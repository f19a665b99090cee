package clients

import (
	"fmt"
	"slices"
	"testing"
)

func TestSubset(t *testing.T) {
	p := &Population{Name: "all"}
	for i := range 60 {
		p.Clients = append(p.Clients, Client{ID: fmt.Sprint("c", i), Split: []Split{Train, Train, Test}[i%3],
			Texts: []string{"a"}})
	}
	ids := func(p *Population, s Split) (list []string) {
		for _, c := range p.Split(s) {
			list = append(list, c.ID)
		}
		return list
	}
	few, err := p.Subset(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	more, err := p.Subset(30, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.Subset(10, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(ids(few, Train)) != 10 || len(ids(more, Train)) != 30 || !slices.Equal(ids(few, Test), ids(p, Test)) {
		t.Errorf("%d and %d train clients, %d test clients", len(ids(few, Train)), len(ids(more, Train)),
			len(ids(few, Test)))
	}
	for _, id := range ids(few, Train) {
		if !slices.Contains(ids(more, Train), id) {
			t.Errorf("%s is among 10 and not among 30", id)
		}
	}
	if slices.Equal(ids(few, Train), ids(other, Train)) {
		t.Error("two seeds draw the same clients")
	}
	key := []byte("k")
	if few.Tag(key, Train) != p.Tag(key, Train) || few.Tag(key) != p.Tag(key) {
		t.Error("a subset counts as other data")
	}
	few.Clients[0].Texts, few.Clients[0].Dates = []string{"old", "new"}, []string{"2001", "2024"}
	if recent := few.Since("2020"); recent.Tag(key) == recent.TagOfPart(key) {
		t.Error("what is left without old texts has the tag of all")
	}
	for _, q := range []*Population{few, {Clients: few.Clients}} { // a part of a population, and none
		recent := q.Since("2020")
		if split := few.Clients[0].Split; !slices.Equal(recent.Sketch(key, split, 9), q.Sketch(key, split, 9)) {
			t.Error("clients without their old texts are not found to be the same")
		}
	}
	if all, err := p.Subset(40, 1); err != nil || !slices.Equal(ids(all, Train), ids(p, Train)) {
		t.Errorf("all clients: %v", err)
	}
	if _, err := p.Subset(41, 1); err == nil {
		t.Error("more clients than there are")
	}
}
