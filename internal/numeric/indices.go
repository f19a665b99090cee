package numeric

import "slices"

// Indices returns the numbers from 0 to n−1.
func Indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// SortedIndices returns the numbers from 0 to n−1 in the order of compare, which gets two of them. Equal ones ascend.
func SortedIndices(n int, compare func(a, b int) int) []int {
	all := Indices(n)
	slices.SortStableFunc(all, compare)
	return all
}
