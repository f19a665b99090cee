// Package lora holds low-rank adapters (Hu et al. 2021) for the projections of a language model, in PEFT's format.
//
// An adapted projection y = W·x + b becomes
//
//	y = W·x + b + s·B·(A·x)     A [r, in], B [out, r], s = alpha/r  (alpha/√r with rsLoRA)
//
// A starts as Kaiming-uniform noise and B as zero, so a new adapter changes nothing. A forward pass uses the adapter
// that it is given; [Adapter.Merge] adds it to the weights of a copy of the model. Begin with [New] or [Load].
package lora
