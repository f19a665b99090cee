package exactjson

import "bytes"

var mark = []byte("\ufeff")

// TrimBOM returns content without the byte-order mark that some editors put before a UTF-8 text. It does not copy.
func TrimBOM(content []byte) []byte { return bytes.TrimPrefix(content, mark) }
