// Package fedsim simulates the clients of a federated population. What the methods learn from train clients passes
// through this package, as noised sums. (Small models for ε = ∞, and the ceiling of privacy.unsafe_ceiling, read train
// clients' text without it, where a configuration allows that.)
//
// A [Federation] holds the train clients' mean embeddings. [Federation.Collect] takes a round's query, for example
// cosine scores of samples, and returns one noised sum of the clients' clipped vectors:
//
//	Σ_i clip(vector_i)  +  N(0, σ²C²)      C the norm bound, σ the noise multiplier, i over the round's cohort
//
// Nothing else leaves the package: no client's vector, no sum without noise, no text. The exception is
// [Config.UnsafeDiagnostics], which experiments on public data may set and which every report shows.
//
// # The order of a release
//
// The mean of two draws of noise for one charge has less noise, so a crash must neither lose a charge nor repeat a
// draw:
//
//	1  the noised sum goes to release.pending, synced       crash: the resumed run charges and uses it
//	2  the ledger takes the charge, with the file's hash    crash: the pending file is what was charged
//	3  the file is renamed to release.bin                   crash: the file is found by its hash and used
//
// If a charged file is gone, the round needs another charge, which the ledger refuses if the budget does not cover it.
// A release.bin that was never charged is refused.
//
// # The noise
//
// Sums are whole numbers of steps of a grid about 2^-30 of the noise wide, and the noise is discrete Gaussian, drawn
// exactly (package noise), so the low bits reveal nothing of the true sum. C is enlarged by what rounding can add to
// the distance of neighbouring sums, and the charge states this. The accountants' formulas are for continuous noise;
// the discrete one's Rényi divergences are no larger, and its δ differs by less than the enlargement gives.
//
// # Who takes part
//
// All clients, or a cohort that is drawn in secret for every round: each client with the same probability (Poisson), or
// a fixed number. Under Poisson sampling, the cohort's true size depends on the data, so only its expectation leaves
// the package. With trees ([ledger.Tree]), the clients take part in a shuffled order, which is no secret.
//
// # Updates of weights
//
// A federation of [NewLearning] asks for model updates (package scoring/update) instead of vectors from embeddings. A
// [Learner] trains a model at each client; this package clips its change of the weights in float64, rounds it to the
// grid and adds it up, so that no more than a sum for each thread is in memory. Noise, charge and states of a release
// are the same. Under [ledger.Tree] the sum is that of a node, and the sums of the leaves so far stay in memory alone:
// a process that resumes the run computes them again from the weights of the rounds, which are public.
package fedsim
