package numeric

import "math"

// Tabulate returns f of 0 to n−1, in order.
func Tabulate[T any](n int, f func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// Map returns what f makes of each element of list, in order.
func Map[From, To any](list []From, f func(From) To) []To {
	out := make([]To, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}

// TryMap is [Map] of a function that may fail, up to its first error.
func TryMap[From, To any](list []From, f func(From) (To, error)) ([]To, error) {
	out := make([]To, len(list))
	for i, x := range list {
		var err error
		if out[i], err = f(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Pick returns the elements of list at indices.
func Pick[T any](list []T, indices []int) []T {
	return Map(indices, func(i int) T { return list[i] })
}

// Where returns the numbers from 0 to n−1 for which holds is true, ascending. It asks in that order.
func Where(n int, holds func(i int) bool) (found []int) {
	for i := range n {
		if holds(i) {
			found = append(found, i)
		}
	}
	return found
}

// Set returns the elements of list as keys.
func Set[T comparable](list []T) map[T]bool {
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}

// Sum adds up what f makes of each element of list.
func Sum[T any, N int | int64](list []T, f func(T) N) (sum N) {
	for _, x := range list {
		sum += f(x)
	}
	return sum
}

// Greatest returns the greatest of what f makes of each element of list, 0 at least.
func Greatest[T any](list []T, f func(T) int) (greatest int) {
	for _, x := range list {
		greatest = max(greatest, f(x))
	}
	return greatest
}

// Product returns the product of numbers; 1 of none.
func Product(numbers []int64) int64 {
	product := int64(1)
	for _, n := range numbers {
		product *= n
	}
	return product
}

// Finite reports whether x is neither NaN nor infinite.
func Finite[F float32 | float64](x F) bool {
	return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0)
}

// NotFinite returns the index of the first of numbers that is not finite; -1 if all are.
func NotFinite[F float32 | float64](numbers []F) int {
	for i, x := range numbers {
		if !Finite(x) {
			return i
		}
	}
	return -1
}

// Convert returns numbers in another type, as a conversion rounds each.
func Convert[To, From int | int32 | int64 | float32 | float64](list []From) []To {
	return Map(list, func(x From) To { return To(x) })
}

// ByLength divides the indices of n things into batches of similar length, the longest first. Each has as many as fit,
// at least one: fits is asked of a number of them with the lengths of the longest and of the shortest one.
func ByLength(n int, length func(i int) int, fits func(count, longest, shortest int) bool) (batches [][]int) {
	order := SortedIndices(n, func(a, b int) int { return length(b) - length(a) })
	for len(order) > 0 {
		count := 1
		for count < len(order) && fits(count+1, length(order[0]), length(order[count])) {
			count++
		}
		batches, order = append(batches, order[:count]), order[count:]
	}
	return batches
}
