// Package archtest holds tests of the whole module's structure: which package may import which.
package archtest
