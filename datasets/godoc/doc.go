// Package godoc is the embedded default: public and private text from the comments in the Go toolchain's own source,
// read from GOROOT where it lies, so that a clone can show the whole loop without downloading anything.
//
// Who plays whom, by file (D, the clients' domain, is cmd/{compile,link,internal,asm}):
//
//	files of D, by a hash of the path   55 % train, 7 % validation, 13 % test clients; 25 % public "in-domain"
//	generator corpus W                  library + other commands + the public quarter of D
//	prompts Ω                           library without runtime, go/, internal, reflect, debug, simd
//
// Ω leaves out the parts of the library that resemble a compiler, so that the small model that starts from it lacks
// something the clients have and the generator knows: that gap is what the method is to close.
//
// Comments become single lines of prose. Generated and vendored files, test data, licences, directives,
// commented-out code, tables and comments with few plain words are left out. A client is a handful of successive
// comments of one file. Text that occurs on both sides of a border stays on the more private side only, by
// [Border]: train keeps everything; validation, test and public text that shares a run of words with a stricter side
// is dropped.
package godoc
