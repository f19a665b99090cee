package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"popri/internal/fault"
	"popri/internal/quote"
)

// maxHeader bounds the bytes before the tensors' blocks: the vocabulary and its merges are by far the most of them, and
// the largest published ones take less than 20 MB.
const maxHeader = 64 << 20

const (
	magic            = "GGUF"
	longestKey       = 1<<16 - 1 // bytes, as the format says
	mostDimensions   = 4
	defaultAlignment = 32
)

// FormatError says what is wrong with a file's content, or what it asks for that is not supported. It is the user's
// file that must be changed, not the program.
type FormatError struct {
	Path    string
	Key     string // of the metadata; empty where none is meant
	Tensor  string // empty where none is meant
	Problem string
}

func (e *FormatError) Error() string {
	switch {
	case e.Tensor != "":
		return quote.Sprintf("gguf: %s: tensor %q: %s", e.Path, e.Tensor, e.Problem)
	case e.Key != "":
		return fmt.Sprintf("gguf: %s: %s: %s", e.Path, quote.Raw(e.Key), e.Problem)
	}
	return fmt.Sprintf("gguf: %s: %s", e.Path, e.Problem)
}

// UserFault says that the user can correct it.
func (e *FormatError) UserFault() bool { return true }

// File is an open file. Its methods may be called concurrently, except Close.
type File struct {
	// Version is the format's, 2 or 3.
	Version uint32

	path    string
	source  io.ReaderAt
	close   func() error
	keys    []string
	values  map[string]value
	tensors []Tensor
	byName  map[string]int
}

// Open opens a file and checks its header. Content that is not valid gives a [*FormatError].
func Open(path string) (*File, error) {
	f, err := fault.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &FormatError{Path: path, Problem: "is not a regular file"}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file, err := Parse(path, f, info.Size())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file.close = f.Close
	return file, nil
}

// Parse reads the header of a file of the given size in bytes. path is for messages.
func Parse(path string, source io.ReaderAt, size int64) (*File, error) {
	f := &File{path: path, source: source, values: map[string]value{}, byName: map[string]int{}}
	c := &cursor{r: bufio.NewReaderSize(io.NewSectionReader(source, 0, size), 1<<16), size: size, file: f}
	if err := f.parse(c); err != nil {
		if _, ok := errors.AsType[*FormatError](err); !ok {
			err = fmt.Errorf("gguf: reading %s: %w", path, err)
		}
		return nil, err
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	if err := f.close(); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}

func (f *File) bad(format string, args ...any) error {
	return &FormatError{Path: f.path, Problem: quote.Sprintf(format, args...)}
}

// Bad returns an error about a metadata key of this file.
func (f *File) Bad(key, format string, args ...any) error {
	return &FormatError{Path: f.path, Key: key, Problem: quote.Sprintf(format, args...)}
}

// BadTensor returns an error about a tensor of this file.
func (f *File) BadTensor(name, format string, args ...any) error {
	return &FormatError{Path: f.path, Tensor: name, Problem: quote.Sprintf(format, args...)}
}

func (f *File) parse(c *cursor) error {
	if head := string(c.take(uint64(len(magic)))); head != magic {
		return c.fail(f.bad("begins with %q, not with %q: not a GGUF file", head, magic))
	}
	switch f.Version = c.uint32(); {
	case f.Version&0xffff == 0 && f.Version != 0:
		return f.bad("is big endian, which is not supported")
	case f.Version != 2 && f.Version != 3:
		return c.fail(f.bad("has version %d, supported are 2 and 3", f.Version))
	}
	tensors, entries := c.uint64(), c.uint64()
	// The shortest entry is an empty key with a byte; the shortest tensor has a name of no bytes and one dimension.
	for range c.fits("entries of metadata", entries, 8+4+1) {
		if err := f.parseEntry(c); err != nil {
			return err
		}
	}
	for range c.fits("tensors", tensors, 8+4+8+4+8) {
		if err := f.parseTensor(c); err != nil {
			return err
		}
	}
	return c.fail(f.locate(c.at, c.size))
}

func (f *File) parseEntry(c *cursor) error {
	key := c.text()
	switch {
	case len(key) > longestKey || key == "":
		return c.fail(f.bad("a key of the metadata has %d bytes, allowed are 1 to %d", len(key), longestKey))
	case !utf8.ValidString(key):
		return c.fail(f.bad("the key %q of the metadata is not UTF-8", key))
	}
	if _, twice := f.values[key]; twice {
		return c.fail(f.Bad(key, "stands twice in the metadata"))
	}
	f.keys = append(f.keys, key)
	f.values[key] = c.value(key, kind(c.uint32()))
	return c.err
}

// cursor reads a header and knows what is left of the file. It keeps the first error, after which it reads zeros.
type cursor struct {
	r        *bufio.Reader
	at, size int64
	file     *File
	err      error
}

// fail notes an error, or nil, and returns the first one.
func (c *cursor) fail(err error) error {
	if c.err == nil {
		c.err = err
	}
	return c.err
}

// need says that n more bytes will be read.
func (c *cursor) need(n uint64) error {
	if left := uint64(c.size - c.at); n > left {
		return c.file.bad("is cut short: %d bytes should follow byte %d, but only %d do", n, c.at, left)
	}
	if n > uint64(maxHeader-min(c.at, maxHeader)) {
		return c.file.bad("the metadata take more than the %d bytes allowed", maxHeader)
	}
	return nil
}

// fits checks a count that the file claims against the bytes that this number of items needs at least. It returns the
// count, or 0 after an error.
func (c *cursor) fits(what string, count, each uint64) uint64 {
	left := uint64(c.size - c.at)
	if count > left/each {
		c.fail(c.file.bad("claims %d %s, which take at least %d bytes each, but only %d bytes follow", count, what, each, left))
	}
	if c.err != nil {
		return 0
	}
	return count
}

// take reads n bytes, whose number was not checked yet.
func (c *cursor) take(n uint64) []byte {
	if c.err != nil || c.fail(c.need(n)) != nil {
		return nil
	}
	b := make([]byte, n)
	read, err := io.ReadFull(c.r, b)
	c.at += int64(read)
	c.err = err
	return b
}

func (c *cursor) uint32() (n uint32) {
	if b := c.take(4); c.err == nil {
		n = binary.LittleEndian.Uint32(b)
	}
	return n
}

func (c *cursor) uint64() (n uint64) {
	if b := c.take(8); c.err == nil {
		n = binary.LittleEndian.Uint64(b)
	}
	return n
}

// text reads a length and then that number of bytes, which need not be UTF-8.
func (c *cursor) text() string { return string(c.take(c.uint64())) }
