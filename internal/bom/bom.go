// Package bom removes the byte-order mark that some editors put before a UTF-8 text.
package bom

import "bytes"

var mark = []byte("\ufeff")

// Trim returns content without a byte-order mark at its beginning. It does not copy.
func Trim(content []byte) []byte { return bytes.TrimPrefix(content, mark) }
