// Package places numbers the elements of lists, for lists that stay as they are while their elements are sorted.
package places

import "slices"

// All returns the numbers from 0 to n−1.
func All(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Sorted returns the numbers from 0 to n−1 in the order of compare, which gets two of them. Equal ones ascend.
func Sorted(n int, compare func(a, b int) int) []int {
	all := All(n)
	slices.SortStableFunc(all, compare)
	return all
}
