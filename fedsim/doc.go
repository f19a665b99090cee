// Package fedsim simulates the clients of a federated population, and is the only door through which training reaches
// private text.
//
// A [Federation] holds the train clients' mean embeddings. [Federation.Collect] takes a round's sample embeddings and
// gives back one noised sum of the clients' clipped score vectors:
//
//	Σ_i clip(score_i)  +  N(0, σ²C²)      C the clip norm, σ the noise multiplier
//
// Nothing else leaves the package: no client's vector, no sum without noise, no text. (Unless
// [Config.UnsafeDiagnostics] is set, which experiments on public data may do, and which every report must show.)
//
// # The order of a release
//
// A noise drawn twice for one charge would average out, so a crash must neither lose a charge nor repeat a draw:
//
//	1  the noised sum goes to release.pending, synced       crash: it is used again, and charged then
//	2  the ledger takes the charge, with the file's hash    crash: the pending file is what was charged
//	3  the file is renamed to release.bin                   crash: found by its hash, and used
//
// A charge whose file is gone is lost: the round needs another charge, which the ledger refuses where the budget does
// not cover it. A release.bin that was never charged is refused.
//
// The sum on disk and in memory is rounded to a grid far below the noise, so that the low bits of floating-point
// arithmetic tell nothing of the true sum, and the noise is larger by a part in a billion to cover the rounding of
// norms in clipping.
package fedsim
