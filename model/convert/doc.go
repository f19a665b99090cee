// Package convert turns a GGUF file into a Hugging Face folder that popri and transformers read, and such a folder into a
// GGUF file that llama.cpp reads: config.json, model.safetensors, tokenizer.json, tokenizer_config.json and
// generation_config.json. Each architecture says once which key belongs to which field, and which tensor to which.
//
//	general.architecture ◄─► names and shapes of the tensors ◄─► model.safetensors
//	llama.rope.freq_base ◄─► rope_theta, …                   ◄─► config.json
//	tokenizer.ggml.*     ◄─► pieces, merges, split           ◄─► tokenizer.json
//
// What llama.cpp's converter does to the weights is undone by an import, and done by an export: LLaMA's queries and keys
// have their rotary pairs side by side in the file, and in halves in the folder; GPT-2's projections are transposed. A key,
// field or tensor that is not known, or that llama.cpp computes otherwise, is refused by name, since ignoring it could change
// the model.
//
// Tensors are read, converted and written piece by piece. What is made has a temporary name next to the final one and is
// renamed at the end, so that it is whole where it is there.
//
// Sources: the keys and the names of tensors in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, what the
// converter does in convert_hf_to_gguf.py of https://github.com/ggml-org/llama.cpp, and how that reads them in
// src/llama-model.cpp and src/llama-vocab.cpp.
package convert
