// Package audit checks what a run says about privacy against what it left on disk.
//
// [Run] reads the ledger with all its checks, computes ε again with every accountant, compares the running totals, and
// checks that each release has a charge and each completed round a release. It uses the run's files alone. The [Report]
// says in plain words what is guaranteed to whom, what the guarantee does not cover, and which checks failed.
package audit
