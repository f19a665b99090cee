// Package downstream evaluates text by what a small model learns from it: a device-sized language model is fine-tuned
// on the text and tested on the tokens, or on the labels, of private test clients.
//
// All models start from the same weights and take the same number of steps of the same batch size; the step with the
// least loss on the validation clients is used. Accuracy is the fraction of tokens that are the model's likeliest,
// perplexity the exponential of the mean negative log-likelihood. Both are over all test tokens together, so that a
// client's weight is its number of tokens. The gap closed by a text is
//
//	(accuracy − accuracy at ε = 0) / (accuracy at ε = ∞ − accuracy at ε = 0)
//
// With labels, the small model is a classifier instead ([Suite.Labels]): every source has a label for each text, ε = 0
// is the model trained on public text, the accuracy is the fraction of test texts that get their label, and [MacroF1]
// takes the place of perplexity. Labels of train clients are as private as their texts: only the row ε = ∞ reads them.
//
// Evaluation reads private validation and test text without noise: it measures an experiment and is no part of a
// private deployment.
package downstream
