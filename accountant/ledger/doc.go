// Package ledger records the privacy that was spent, and refuses charges beyond the budget.
//
// A ledger is a file of JSON lines that only grows: the budget first, then one line for each charge, with running
// totals. A charge is on disk before [Ledger.Charge] returns, and its caller releases nothing before that.
//
//	{"type":"budget","epsilon":7,"delta":0.0001,…,"previous":"","hash":"5f…"}
//	{"type":"charge","round":1,"sigma":1.05,…,"epsilon_spent":3.2,"previous":"5f…","hash":"a1…"}
//
// Each line ends in the SHA-256 of the rest of it, which holds the hash of the line before: a changed, inserted or
// removed line breaks the chain. The file ….head next to it holds the number of lines and the last hash, so that
// missing lines at the end are found too. This finds accidents and careless edits; it does not stop somebody who
// rewrites both files.
package ledger
