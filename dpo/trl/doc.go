// Package trl has TRL's DPOTrainer train a round's adapter: a process of its own, on as many machines as its launcher
// is told of.
//
//	pairs, reference log-probabilities ─► job.yaml, pairs.jsonl, start/ ─► train.py ─► adapter/, result.json ─► tuner
//
// popri decides everything that is trained on: tokens, order, learning rates, and the reference log-probabilities, so
// the reference is the one that the configuration names and never a copy of the adapter. What comes back is checked:
// the loss of the same pairs under the adapter, once computed by TRL and once here.
package trl
