// Package convert turns a GGUF file into a Hugging Face folder that popri and transformers read: config.json,
// model.safetensors, tokenizer.json, tokenizer_config.json and generation_config.json.
//
//	general.architecture ─► names and shapes of the tensors ─► model.safetensors
//	llama.rope.freq_base ─► rope_theta, …                   ─► config.json
//	tokenizer.ggml.*     ─► pieces, merges, split           ─► tokenizer.json
//
// Read are LLaMA (with it Mistral and SmolLM, which files of llama.cpp call llama), Qwen2, Qwen3, Gemma 3 and GPT-2.
// What llama.cpp's converter did to the weights is undone: LLaMA's queries and keys have their rotary pairs side by
// side there, and in halves here; GPT-2's projections are transposed. A key or a tensor that is not known is refused by
// name, since ignoring it could change the model.
//
// Tensors are read, dequantized and written piece by piece. The folder is made under a temporary name next to the final one
// and renamed at the end, so that it is whole where it is there.
//
// Sources: the keys and the names of tensors in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, what the
// converter does in convert_hf_to_gguf.py of https://github.com/ggml-org/llama.cpp, and how that reads them in
// src/llama-model.cpp and src/llama-vocab.cpp.
package convert
