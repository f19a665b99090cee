package numeric

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

// Convert returns numbers in another type, as a conversion rounds each.
func Convert[To, From int | int32 | int64 | float32 | float64](list []From) []To {
	return Map(list, func(x From) To { return To(x) })
}
