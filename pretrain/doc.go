// Package pretrain makes the models that popri ships: a byte-level BPE tokenizer and a small GPT, both from public text
// alone.
//
// The corpus becomes documents of a few texts, one a line, that end with the end-of-text token: half of them successive
// texts of one source, half texts drawn from everywhere. So a list in a prompt, of one kind or mixed, means to the model
// that another such text follows.
package pretrain
