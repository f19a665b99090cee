// Package fedsim is the federation. What the methods learn from train clients passes through this package, as noised
// sums. (Small models for ε = ∞ read train clients' text without it, where a configuration allows that.)
//
// A [Federation] joins two contracts:
//
//	Clients     a source of sums: Σ_i v_i over the clients of a round, ‖v_i‖₂ ≤ C, in steps of a grid
//	Mechanism   who is asked, the noise, and what that costs: Σ_i v_i + N(0, σ²C²)
//
//	clients                                            answer with                        mechanism
//	[Embedded]  texts' embeddings, in memory           vectors for a query.Query          [Gaussian]
//	[Learning]  texts, near a model that they train    changes of its weights             [Gaussian], [Tree]
//	[Counting]  texts as rows of tokens                counts of tokens and of pairs      [Gaussian]
//	[Teachers]  texts as prompts of a model            votes for its next token           [Choice]
//	[Ballots]   texts' embeddings                      votes for samples                  [Selection]
//	[Reporting] the simulation of two aggregators      vectors                            [Aggregated]
//	[Remote]    clients behind two aggregators         a sum with both aggregators' noise [Aggregated]
//
// Nothing else leaves the package: no client's vector, no sum without noise, no text. The exception is
// [Config.UnsafeDiagnostics], which experiments on public data may set and which every report shows.
//
// # The order of a release
//
// [Federation.Collect] gives a mechanism's noised sum to [ledger.Ledger.Release], which writes it as release.pending,
// charges it and renames it to release.bin. If a charged file is gone, the round needs another charge, which the ledger
// refuses if the budget does not cover it. A release.bin that was never charged is refused.
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
// the package. In a [Tree], the clients take part in a shuffled order, which is no secret.
package fedsim
