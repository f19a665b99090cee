// Package benchmark times popri on the work that scripts/peers.py gives to other libraries: the same model folder,
// prompts.json (token ids) and pairs.json, and the same counts. Loading is not timed.
package benchmark
