// Package downstream judges text by what a small model learns from it: a device-sized language model is fine-tuned on the
// text and predicts the tokens of private test clients.
//
// All models start from the same weights, take the same number of steps of the same batches' size, and the best step is
// chosen by the loss on the validation clients in the same way. Accuracy is the share of tokens that are the model's
// likeliest, perplexity the exponential of the mean negative log-likelihood, both over all test tokens together, so that
// a client weighs as many tokens as it has. The gap closed by a text is
//
//	(accuracy − accuracy at ε = 0) / (accuracy at ε = ∞ − accuracy at ε = 0)
//
// Evaluation reads private validation and test text without noise: it measures an experiment and is no part of a private
// deployment.
package downstream
