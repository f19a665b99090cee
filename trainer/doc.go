// Package trainer trains weights: one loop for every loss.
//
//	Epochs ─► indices of examples ─► Objective.Batch ─► passes, side by side, each on one thread
//	       ─► gradients, added in the passes' order ─► clipping, AdamW ─► figures, measurement, checkpoint
//
// An [Objective] says what is minimised: preference pairs (package dpo), groups of scored samples (methods/grpo), or
// rows of tokens ([NextToken]: fine-tuning, small models, pretraining). The [Loop] knows indices of examples only. Its
// bits depend neither on the number of threads nor on interruptions. Begin with [NewOptimizer] and [Loop.Run].
package trainer
