// Package lm holds the language models: decoders read from a Hugging Face directory, their forward pass for training
// and scoring, and sampling.
//
// A decoder is a list of blocks between embeddings and a head:
//
//	x = embed(ids) (+ positions)
//	x = block(x)                  for each block, such as
//	                              x = x + attention(norm(x)); x = x + mlp(norm(x))
//	logits = norm(x) · headᵀ
//
// Each architecture has a file with its config.json, its tensors' names, and its block as a formula, which runs
// everywhere (gpt2.go and llama.go are the first to read; block.go has the parts). The fast layer computes the same blocks
// with the kernels of this machine: fast.go for training and scoring, decode.go for sampling, pack.go the weights that are
// laid out for it.
//
// A classifier ([LoadClassifier]) has another head, which gives a whole row a label.
//
// Shapes are written with B sequences, T tokens, H hidden size, N query heads and KV heads of keys and values of width
// D, V vocabulary.
package lm
