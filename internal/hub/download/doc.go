// Package download fetches models from Hugging Face's hub into the cache that package hub reads. Only a command that
// the user gave for this purpose may use it: a run never fetches.
//
// The hub lists the files of a commit, and states the size and the checksum of each: the SHA-256 of large files, git's
// SHA-1 of small ones. Contents may come from other hosts, to which the user's token is not sent.
//
// gomlx/go-huggingface (v0.3.1) does less: it begins an interrupted file again (TestGetGoesOn), compares no content with
// its checksum (TestGetRefuses), and repeats no request (TestGetTriesAgain).
package download
