// Package lanfl is LanFL, federated learning by prompts: participants who hold labelled texts, and a language model
// that nobody tunes, exchange examples that the model wrote from their own.
//
//	each participant   draws k of its n texts, shows them, and lets the model write one more at temperature 0      (s times)
//	                   drops what is too like one of its own texts (BLEU)
//	                   shares the rest with everybody
//	                   finds the number of its own examples to show that costs least, then how many of them to replace by others'
//
// It is not private in this program's sense. Which k of n + 1 texts are drawn is all that protects one: a sample is
// (0, k/(n+1))-differentially private, and "publish k texts as they are" is so, too ([Claim]).
//
// Source: "LanFL: Differentially Private Federated Learning with Large Language Models using Synthetic Samples", whose
// title claims more than its mechanism gives. With [Options].Reasoning, the model says why a text has its label, and
// examples are shown with that. The reason stands behind the label, which the paper leaves open, so that a label is
// asked for as without reasons.
package lanfl
