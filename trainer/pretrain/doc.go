// Package pretrain makes small models from public text alone: a byte-level BPE tokenizer and a GPT. These are the
// models that popri ships, and those that runs on other data ask for ([Cache]).
//
// The corpus becomes documents of a few texts, one per line, that end with the end-of-text token. Half of the documents
// hold successive texts of one source, half hold texts from all sources. So the model learns to continue a list of
// texts with another such text.
package pretrain
