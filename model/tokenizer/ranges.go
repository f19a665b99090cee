package tokenizer

import "unicode/utf8"

// runeRange gives the code points from first to last a value.
type runeRange[T any] struct {
	first, last rune
	value       T
}

// search returns the value of r by ascending ranges, the zero value where it is in none.
func search[T any](ranges []runeRange[T], r rune) (none T) {
	low, high := 0, len(ranges)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := &ranges[mid]; {
		case r < c.first:
			high = mid
		case r > c.last:
			low = mid + 1
		default:
			return c.value
		}
	}
	return none
}

// asciiOf returns the values of ASCII as a table.
func asciiOf[T any](ranges []runeRange[T]) (table [utf8.RuneSelf]T) {
	for r := range rune(utf8.RuneSelf) {
		table[r] = search(ranges, r)
	}
	return table
}
