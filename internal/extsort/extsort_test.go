package extsort

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// The order is as in a stable sort in memory, with one run or many, and nothing stays behind.
func TestSorts(t *testing.T) {
	for _, memory := range []int{0, 1, 2000, 20_000} {
		dir := t.TempDir()
		s := New(dir, memory)
		random := rand.New(rand.NewPCG(1, uint64(memory)))
		var want []string
		for i := range 400 {
			key, value := fmt.Sprint("k", random.IntN(50)), strings.Repeat("v", random.IntN(30))+fmt.Sprint(i)
			if err := s.Add(key, []byte(value)); err != nil {
				t.Fatal(err)
			}
			want = append(want, key+" "+value)
		}
		slices.SortStableFunc(want, func(a, b string) int {
			return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0])
		})
		var got []string
		err := s.Each(func(key string, value []byte) error {
			got = append(got, key+" "+string(value))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("memory %d: %d records of %d, %v", memory, len(got), len(want), err)
		}
		stop := errors.New("stop")
		if err := s.Each(func(string, []byte) error { return stop }); err != stop {
			t.Errorf("memory %d: an error of the caller became %v", memory, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("memory %d: %v is left, %v", memory, left, err)
		}
	}
}
