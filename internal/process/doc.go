// Package process changes two properties of the process for the sake of tensors: its memory allocator (allocator.go) and
// the timer slack of its threads (monitor.go). A command imports it for its effect alone:
//
//	import _ "popri/internal/process"
//
// A library must not do this to the program that imports it.
package process
