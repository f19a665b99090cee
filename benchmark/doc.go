// Package benchmark times popri on the work that scripts/peers.py gives to the libraries one would use otherwise: the same
// model folder, prompts.json (token ids) and pairs.json, the same counts, nothing but the work itself timed.
package benchmark
