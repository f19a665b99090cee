// Package noise draws whole numbers with discrete Gaussian noise, exactly, from a cryptographic source.
//
// The proofs do not cover Gaussian noise in floating point: the possible low bits of a noised number depend on the
// hidden number and can reveal it (Mironov 2012). So sums are rounded to a [Grid] and get a whole number of its steps,
//
//	P[X = k] ∝ exp(−k²/2σ²)      k any integer, σ a whole number
//
// by a method that computes with integers alone (Canonne, Kamath and Steinke 2020, algorithms 1 to 3): no logarithm, no
// rounding, no truncated table. The grid's enlarged sensitivity covers what rounding adds to the distance of
// neighbouring sums.
//
// The sampler's running time depends on what it draws. It does not protect against an observer who can time single
// draws.
package noise
