// Package rangeproof shares a vector of whole numbers between two aggregators with a proof that each number is in a
// range, which both check together without learning anything else: Prio3SumVec of the VDAF draft
// (draft-irtf-cfrg-vdaf-13, section 7.4.3), as github.com/cloudflare/circl has it.
//
//	v[i] + 2^(bits−1) − 1 = Σ 2^j·x[i,j]       j = 0 … bits−1, and the proof says that each x[i,j] is 0 or 1
//
// Shares are elements of the field Fp128. Elements are written in 16 bytes, little-endian.
//
// The proof holds if both aggregators follow the protocol. The numbers stay secret if one of them does.
package rangeproof
