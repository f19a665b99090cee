// Package metrics compares two clouds of text embeddings: how far apart they lie ([Frechet], what papers call FID) and
// how much of each lies within the other ([PrecisionRecall]).
//
//	FID(x, y) = |μx − μy|² + tr Cx + tr Cy − 2 tr (Cx Cy)^½
//
// Points are rows of float32 in one slice, row after row; sums are float64.
package metrics
