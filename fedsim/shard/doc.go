// Package shard carries a round's question to machines near the clients' data, and their partial sums back:
//
//	run ─► question.safetensors ─► shard 1 … N ─► partial sums, encrypted ─► merger ─► noise, charge, release
//
// A question ([Question]) is public: a query, the samples or the centre that it is about, and the encoder's key. A
// partial sum ([Part]) is secret, as any sum without noise: it is encrypted to the merger's public key by HPKE (RFC
// 9180), with all that says what it is as associated data. Partial sums are whole numbers (query.Partial), so N of them
// merge to the sum that one process computes, to the last bit.
//
// Encryption does not say who wrote a partial sum: whoever has the question and the public key can write one. The
// merger takes partial sums from machines that it trusts, by a way that it trusts.
package shard
