// Package dpo tunes a language model's adapters on preference pairs (Rafailov et al. 2023, "Direct Preference
// Optimization").
//
// log π is the summed log-probability of a completion given its prompt, and the reference is the model without its
// adapters. A pair's margin is
//
//	d = (log π(chosen) − log π_ref(chosen)) − (log π(rejected) − log π_ref(rejected))
//
// and DPO minimises −ln σ(β·d). The other losses are functions of the same four numbers, one file each.
//
// Begin with [NewLoss] and [NewTuner]; [Tuner.Reference] computes log π_ref, and [Fit.Run] trains.
package dpo
