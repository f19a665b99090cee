// Package embedding turns texts into unit vectors whose dot products measure how similar the texts are.
//
// [Encoder] is the interface; every implementation passes the suite in conform_test.go. [Hashing] needs no weights:
// hashed words, pairs of words and character n-grams, weighted by tf-idf from public text, sketched to a few hundred
// dimensions by a fixed sparse random projection, centred on the public mean:
//
//	text ─► features f with counts c(f) ─► v = Σ_f w(f)·(1 + ln c(f))·idf(f)·R(f) ─► v/‖v‖ − mean ─► unit length
//
// R(f) has a few entries ±1, derived from a hash of f, so that no matrix is stored. [Latent] fits its directions to
// public text instead of drawing them.
package embedding
