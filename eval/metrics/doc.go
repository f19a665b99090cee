// Package metrics compares two clouds of text embeddings: how far apart they are (what papers call FID).
//
//	FID(x, y) = |μx − μy|² + tr Cx + tr Cy − 2 tr (Cx Cy)^½
//
// With it stands the Wasserstein distance, which does not take the clouds for normal distributions.
//
// Points are rows of float32 in one slice, row after row; sums are float64.
package metrics
