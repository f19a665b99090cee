// Package fedsim simulates the clients of a federated population, and is the only door through which training reaches
// private text.
//
// A [Federation] holds the train clients' mean embeddings. [Federation.Collect] takes a round's sample embeddings and
// gives back one noised sum of the clients' clipped score vectors:
//
//	Σ_i clip(score_i)  +  N(0, σ²C²)      C the clip norm, σ the noise multiplier, i over the round's cohort
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
// # The noise
//
// Sums are whole numbers of steps of a grid about 2^-30 of the noise wide, and the noise is discrete Gaussian, drawn
// exactly (package noise): nothing of the true sum shows in low bits. C is enlarged by what rounding can add to the
// distance of neighbouring sums, and the charge states it. The accountants' formulas are for continuous noise; the
// discrete one's Rényi divergences are no larger, and its δ differs by less than the enlargement gives.
//
// # Who takes part
//
// All clients, or a cohort that is drawn anew and in secret for every round: each client with the same chance
// (Poisson), or a fixed number. Under Poisson sampling the cohort's true size depends on who is in the data, so that
// only its expectation leaves the package. Where clients add shares of the noise and some then do not answer, the noise
// that is in the sum is what the ledger is charged for.
package fedsim
