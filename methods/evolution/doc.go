// Package evolution is Private Evolution for text (Lin et al. 2024): a population of texts that clients vote
// on, of which the selected ones are varied, round after round. The generator is not trained.
//
//	population ─► look-ahead embeddings ─► votes of the clients, summed, + noise      (package scoring, package fedsim)
//	    ▲                                        │
//	    │                                        ▼
//	variations ◄── selected samples ◄── max(0, votes − H) ─► N draws (PrE-Text) or the N highest (Aug-PE)
//	                    │
//	                    └─► expansion: prompts that quote the survivors give the synthetic set
//
// The variants are PrE-Text (Hou et al. 2024), of N texts that are resampled and all replaced by variations, and Aug-PE
// (Xie et al. 2024), of N·L texts, of which N stay together with L−1 variations of each.
//
// Everything here follows the release of the noised votes, so that it costs no privacy. The package sees public texts,
// its own samples and released votes. [Evolution] is the algorithm and touches no file; what a language model does for
// it is behind [Writer]. [Method] keeps a run's rounds in files and asks the clients.
//
// Equal settings, seed, public texts and votes give an equal evolution: each draw has a stream of its own, named by
// round and stage, so that a run that is resumed continues as it would have.
package evolution
