// Package gguf reads and writes GGUF files, the format in which llama.cpp and its relatives keep a model: metadata, vocabulary and
// weights, most of them quantized.
//
//	4 bytes   "GGUF"
//	4 bytes   version, 2 or 3, little endian as all numbers
//	16 bytes  number of tensors, number of metadata entries
//	entries   key, type, value; texts and arrays begin with their length
//	tensors   name, dimensions (the first one varies fastest), type, offset
//	padding   to a multiple of general.alignment (32)
//	the rest  the tensors' blocks; offsets count from here
//
// [Open] checks the header completely: every count and length against what is left of the file before anything is
// allocated for it, and every tensor's bytes against the file's size and the other tensors. [Reader] then dequantizes a
// tensor piece by piece, so that memory does not grow with the file; [Write] writes one so, of tensors that [Append] rounds.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The layout of the quantized blocks follows the
// structs of ggml-common.h in the same repository.
package gguf
