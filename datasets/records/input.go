package records

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"popri/internal/bom"
)

const compressed = ".gz"

// mostBytes is the largest record. A quotation mark that is never closed would otherwise take a whole file into memory.
const mostBytes = 64 << 20

// input is a text file that is read as a stream. It refuses what is not UTF-8, which parsers of JSON replace without a
// word, and records of more than mostBytes.
type input struct {
	file     *os.File
	in       io.Reader
	size     int64
	read     int64 // bytes of the text
	told     int64 // read when progress was told
	mark     int64 // read when the newest record began, at most a buffer too large
	tail     []byte
	failed   error // the first fault
	progress func(done, total int64)
}

func open(path string, progress func(done, total int64)) (*input, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	i := &input{file: file, in: file, size: info.Size(), progress: progress}
	if strings.HasSuffix(strings.ToLower(path), compressed) {
		if i.in, err = gzip.NewReader(file); err != nil {
			file.Close()
			return nil, &Error{path: path, err: err}
		}
	}
	buffered := bufio.NewReaderSize(i.in, 64<<10)
	if head, _ := buffered.Peek(3); len(head) == 3 && len(bom.Trim(head)) == 0 {
		buffered.Discard(3)
	}
	i.in = buffered
	return i, nil
}

// Close closes the file.
func (i *input) Close() error { return i.file.Close() }

// next begins a record.
func (i *input) next() {
	i.mark = i.read
	if i.read-i.told >= 1<<20 {
		i.told = i.read
		if at, err := i.file.Seek(0, io.SeekCurrent); err == nil {
			i.progress(at, i.size)
		}
	}
}

var errLarge = fmt.Errorf("a record is larger than %d MiB", mostBytes>>20)

// Read implements io.Reader.
func (i *input) Read(b []byte) (n int, err error) {
	if i.failed != nil {
		return 0, i.failed
	}
	n, err = i.in.Read(b)
	if fault := i.check(b[:n], err == io.EOF); fault != nil {
		i.failed = fault
		return 0, fault
	}
	if err != nil && err != io.EOF {
		i.failed = fmt.Errorf("after %d bytes: %w", i.read, err)
		return n, i.failed
	}
	return n, err
}

func (i *input) check(b []byte, end bool) error {
	start := i.read - int64(len(i.tail))
	i.read += int64(len(b))
	if i.read-i.mark > mostBytes {
		return errLarge
	}
	if len(i.tail) > 0 { // the end of the last piece may be the beginning of a character
		b = append(i.tail, b...)
	}
	if utf8.Valid(b) {
		i.tail = nil
		return nil
	}
	for at := 0; at < len(b); {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size <= 1 {
			if !end && !utf8.FullRune(b[at:]) {
				i.tail = append([]byte(nil), b[at:]...)
				return nil
			}
			return fmt.Errorf("not UTF-8: byte %d is ill-formed", start+int64(at))
		}
		at += size
	}
	return nil
}

// line reads a line without its end. It returns io.EOF after the last one.
func line(r *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if err == nil || err == io.EOF && len(part)+len(long) > 0 {
			if long != nil {
				part = append(long, part...)
			}
			return part, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		long = append(long, part...)
	}
}
