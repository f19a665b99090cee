package records

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
)

const compressed = ".gz"

// mostBytes is the largest record. A quotation mark that is never closed would otherwise take a whole file into memory.
// mostCells bounds the cells of a table's row, which cost more memory than their bytes.
const (
	mostBytes = 64 << 20
	mostCells = 1 << 20
)

// input is a text file that is read as a stream. It refuses what is not UTF-8, which parsers of JSON replace without a
// word, and records of more than mostBytes or, in a table, more than mostCells delimiters.
type input struct {
	file      *os.File
	in        *bufio.Reader
	size      int64
	read      int64 // bytes of the text
	lines     int64 // line breaks of the text
	told      int64 // read when progress was told
	mark      int64 // read when the newest record began, at most a buffer too large
	delimiter byte  // of a table, else 0
	cells     int   // delimiters since the newest record began, and a buffer before it at most
	tail      []byte
	encoding  string // that the text was decoded from, empty for UTF-8
	failed    error  // the first fault
	position  string // its line, if it is known
	progress  func(done, total int64)
}

func open(path string, o Options) (*input, error) {
	file, err := fault.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	i := &input{file: file, size: info.Size(), progress: o.Progress}
	content, err := unpacked(file, path)
	if err != nil {
		file.Close()
		return nil, err
	}
	i.in = bufio.NewReaderSize(content, 64<<10)
	if err := i.decode(o.Encoding); err != nil {
		file.Close()
		return nil, err
	}
	if head, _ := i.in.Peek(3); len(head) == 3 && len(exactjson.TrimBOM(head)) == 0 {
		i.in.Discard(3)
	}
	return i, nil
}

// unpacked is the text of a file that may be compressed, as its name says.
func unpacked(file io.Reader, path string) (io.Reader, error) {
	if !strings.HasSuffix(strings.ToLower(path), compressed) {
		return file, nil
	}
	content, err := gzip.NewReader(file)
	if err != nil {
		return nil, &Error{path: path, err: err}
	}
	return content, nil
}

// decode makes UTF-8 of another encoding, which is named or follows from the mark of UTF-16.
func (i *input) decode(name string) error {
	head, _ := i.in.Peek(2)
	if name == "" && (string(head) == "\xff\xfe" || string(head) == "\xfe\xff") {
		name = "utf-16"
	}
	from, err := charset(name)
	if err != nil || from == unicode.UTF8 {
		return err
	}
	i.encoding = name
	i.in = bufio.NewReaderSize(transform.NewReader(i.in, unicode.BOMOverride(from.NewDecoder())), 64<<10)
	return nil
}

// charset is the encoding of a name, UTF-8 for "".
func charset(name string) (encoding.Encoding, error) {
	if name == "" {
		return unicode.UTF8, nil
	}
	from, err := htmlindex.Get(name)
	if err != nil {
		return nil, fault.Userf("the encoding is %s, want a name as of web pages, such as utf-8, windows-1252, utf-16 or gbk",
			quote.Text(name))
	}
	return from, nil
}

// Close closes the file.
func (i *input) Close() error { return i.file.Close() }

// next begins a record.
func (i *input) next() {
	i.mark, i.cells = i.read, 0
	if i.read-i.told >= 1<<20 {
		i.told = i.read
		if at, err := i.file.Seek(0, io.SeekCurrent); err == nil {
			i.progress(at, i.size)
		}
	}
}

var (
	errLarge = fmt.Errorf("a record is larger than %d MiB", mostBytes>>20)
	errCells = fmt.Errorf("a record has more than %d delimiters", mostCells)
	// ErrEncoding marks text that is not of the encoding that it is read in.
	ErrEncoding = errors.New("wrong encoding")
)

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
	if i.delimiter != 0 {
		if i.cells += bytes.Count(b, []byte{i.delimiter}); i.cells > mostCells {
			return errCells
		}
	}
	if len(i.tail) > 0 { // the end of the last piece may be the beginning of a character
		b = append(i.tail, b...)
	}
	if i.encoding != "" { // a decoder puts U+FFFD for what it does not know
		if at := bytes.Index(b, []byte("\ufffd")); at >= 0 {
			return i.wrong(b[:at], "a character is none of %s", i.encoding)
		}
	}
	if utf8.Valid(b) {
		i.tail = nil
		i.lines += int64(bytes.Count(b, []byte{'\n'}))
		return nil
	}
	for at := 0; at < len(b); {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size <= 1 {
			if !end && !utf8.FullRune(b[at:]) {
				i.tail = append([]byte(nil), b[at:]...)
				i.lines += int64(bytes.Count(b, []byte{'\n'}))
				return nil
			}
			return i.wrong(b[:at], "not UTF-8: byte %d is ill-formed", start+int64(at))
		}
		at += size
	}
	return nil
}

// wrong notes the line behind what was sound, and returns the error of another encoding.
func (i *input) wrong(sound []byte, format string, args ...any) error {
	i.position = fmt.Sprintf("line %d", i.lines+int64(bytes.Count(sound, []byte{'\n'}))+1)
	return fmt.Errorf("%w: %s", ErrEncoding, fmt.Sprintf(format, args...))
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
