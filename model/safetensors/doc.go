// Package safetensors reads and writes tensors in the safetensors format.
//
//	8 bytes   length n of the header, little endian
//	n bytes   JSON: {"__metadata__": {…}, name: {"dtype", "shape", "data_offsets": [begin, end]}, …}, padded by spaces
//	the rest  the tensors' values, little endian, row major, without gaps; offsets count from here
//
// [Open] maps the file into memory and gives views of it, so that nothing is read before it is used and several
// processes share one copy. A header is checked completely before any tensor is handed out: names, types, shapes and
// byte ranges must agree with each other and with the size of the file. [OpenModel] does the same for a model folder
// with one file or with shards. [Write] lays files out as the reference implementation does.
//
// Format: https://github.com/huggingface/safetensors (README, "Format").
package safetensors
