// Package lm holds the language models: decoders read from a Hugging Face directory, their forward pass for training
// and scoring, and sampling.
//
// A decoder is a list of blocks of shared parts (norm, attention, mlp). One small file per architecture names the parts
// and the checkpoint's tensors for them:
//
//	x = embed(ids) (+ positions)
//	x = x + attention(norm(x))
//	x = x + mlp(norm(x))          for each block
//	logits = norm(x) · headᵀ
//
// A classifier ([LoadClassifier]) has another head, which gives a whole row a label.
//
// Shapes are written with B sequences, T tokens, H hidden size, N query heads and KV heads of keys and values of width
// D, V vocabulary.
package lm
