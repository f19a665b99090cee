// Package noise draws whole numbers with discrete Gaussian noise, exactly, from a cryptographic source.
//
// Real-valued Gaussian noise in floating point is not what the proofs are about: which low bits a noised number can
// have depends on the number that was hidden, and that alone can give it away (Mironov 2012). So sums are rounded to a
// [Grid] and get a whole number of its steps,
//
//	P[X = k] ∝ exp(−k²/2σ²)      k any integer, σ a whole number
//
// by a method that computes with integers alone (Canonne, Kamath and Steinke 2020, algorithms 1 to 3): no logarithm, no
// rounding, no table that is cut off. What rounding does to the distance of neighbouring sums, the grid's enlarged
// sensitivity covers.
//
// The sampler's running time depends on what it draws. An observer who can time single draws is not defended against.
package noise
