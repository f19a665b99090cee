// Package aggregate sums clients' vectors at two aggregators, of which each alone sees nothing:
//
//	client   v, its bounded vector in steps of the noise's grid        s, a random seed;  m = expand(s)
//	           ├─ v − m ──► leader    Σ(v − m) + noise ─┐
//	           └─ s ──────► helper    Σ m     + noise ──┴─► sum of both = Σv + two noises       (all modulo 2^64)
//
// Each share is sealed to its aggregator, bound to the announcement (the question's hash, its norm bound, the round and
// the deadline among other things) and signed by the client's enrolled key. A share alone is uniform, whatever the
// vector is. At the deadline both aggregators keep the reports that both of them have; below the announced least number
// nothing is summed.
//
// Each aggregator adds the full discrete Gaussian noise to its own sum before anything leaves it, and charges its own
// ledger for it. A guarantee therefore needs one honest aggregator. With two, the sum has the noise of both, of which
// one is charged.
//
// The sum of vectors that were rounded to the grid one by one is exact: shares, one process that adds them up, and any
// division into parts give the same bits, and with equal noise the same release (fedsim.Config.Aggregators).
//
// aggregate.proto is the schema of the messages. Begin with [Split], [Seal], [Aggregator] and [Merge].
package aggregate
