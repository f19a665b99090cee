package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBenchAggregate(t *testing.T) {
	args := []string{"bench", "aggregate", "--clients", "4", "--values", "5,9", "--json"}
	code, out, errs := popri(t, args...)
	var got struct {
		Results []struct {
			Values int
			Proof  string
			Sides  map[string]struct{ Take, Sum float64 } `json:"aggregators"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || len(got.Results) != 4 {
		t.Fatalf("exit code %d: %s%s (%v)", code, out, errs, err)
	}
	for i, r := range got.Results {
		if want := []int{5, 5, 9, 9}[i]; r.Values != want || r.Proof != []string{"none", "range"}[i%2] ||
			!(r.Sides["leader"].Sum > 0 && r.Sides["helper"].Take > 0) {
			t.Errorf("%+v", r)
		}
	}
	for want, args := range map[string][]string{
		`--proof is "norm"`: {"--proof", "norm"},
		"1 clients":         {"--clients", "1"},
		"0 values":          {"--values", "0"},
	} {
		if code, _, errs := popri(t, append([]string{"bench", "aggregate"}, args...)...); code != 2 ||
			!strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
