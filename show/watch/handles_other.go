//go:build !unix

package watch

// handles is a number that every process may have open.
func handles() int { return 4 * maxConnections }
