// Package vllm draws samples on a vLLM server, by its form of the OpenAI completions: token ids in and out.
//
//	adapter ─► folder ─► load_lora_adapter under a new name ─► canary ─► one request a prompt, n samples each ─► checked ids
//
// A server answers 200 for an adapter that has no effect, so each loaded adapter is proved on a canary: its
// log-probabilities of the first prompts must move from the base's as they do here. A server that starts again has
// forgotten its adapters; they are loaded again. The server is not trusted for the lengths, ids and ends of samples.
//
// What is sent is what prompts are made of: public text and text that the model wrote. The adapter, whose training is
// covered by the guarantee, is read by the server from the folder.
package vllm
