// Package audit checks what a run says about privacy against what it left on disk.
//
// [Run] reads the ledger with all its checks, computes ε anew with every accountant, compares the running totals, and
// looks for a charge for each release and a release for each round that went on. It trusts nothing but the files, and
// tells in plain words what is guaranteed to whom, what takes the guarantee away, and what does not fit.
package audit
