package numeric

// Map returns what f makes of each element of list, in order.
func Map[From, To any](list []From, f func(From) To) []To {
	out := make([]To, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}

// Pick returns the elements of list at indices.
func Pick[T any](list []T, indices []int) []T {
	return Map(indices, func(i int) T { return list[i] })
}

// Convert returns numbers in another type, as a conversion rounds each.
func Convert[To, From int | int32 | int64 | float32 | float64](list []From) []To {
	return Map(list, func(x From) To { return To(x) })
}
