package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"popri/internal/exactjson"
	"popri/internal/fault"
)

// maxHeader bounds the header's length in bytes, as in the reference: a wrong length field must not make a reader
// allocate that much.
const maxHeader = 100_000_000

// metadataKey is the only name in the header that is not a tensor.
const metadataKey = "__metadata__"

// FormatError describes an error in a file's content, which the user must correct.
type FormatError struct {
	Path    string
	Tensor  string // empty if the whole file is meant
	Problem string
}

func (e *FormatError) Error() string {
	if e.Tensor == "" {
		return fmt.Sprintf("safetensors: %s: %s", e.Path, e.Problem)
	}
	return fmt.Sprintf("safetensors: %s: tensor %q: %s", e.Path, e.Tensor, e.Problem)
}

// UserFault says that the user can correct it.
func (e *FormatError) UserFault() bool { return true }

// File is an open file. Its methods may be called concurrently, except Close.
type File struct {
	path     string
	content  []byte
	unmap    func() error
	tensors  map[string]Tensor
	names    []string
	metadata map[string]string
}

// Open maps a file and checks its header. Content that is not valid gives a [*FormatError].
//
// The values are read when they are used: if another process cuts the file meanwhile, reading faults, as with any
// mapping. popri replaces its files and never changes them in place.
func Open(path string) (*File, error) {
	f, err := fault.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, &FormatError{Path: path, Problem: "is not a regular file"}
	}
	if info.Size() < 8 {
		return nil, &FormatError{Path: path,
			Problem: fmt.Sprintf("%d bytes are too short: the length of the header alone takes 8", info.Size())}
	}
	content, unmap, err := mapFile(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("safetensors: mapping %s (%d bytes): %w", path, info.Size(), err)
	}
	file := &File{path: path, content: content, unmap: unmap}
	if err := file.parse(); err != nil {
		return nil, errors.Join(err, unmap())
	}
	return file, nil
}

// Path returns the path that the file was opened by.
func (f *File) Path() string { return f.path }

// Names returns the tensors' names in ascending order. The slice is shared and must not be changed.
func (f *File) Names() []string { return f.names }

// Tensor returns the tensor of that name. Its Data stays valid until Close.
func (f *File) Tensor(name string) (Tensor, bool) {
	t, ok := f.tensors[name]
	return t, ok
}

// Metadata returns a copy of the header's text entries.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Close unmaps the file. Views from it must not be used any more. A second call does nothing.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap, f.content, f.tensors, f.names = nil, nil, nil, nil
	if err := unmap(); err != nil {
		return fmt.Errorf("safetensors: closing %s: %w", f.path, err)
	}
	return nil
}

// span is the position of a tensor's bytes, counted from the end of the header.
type span struct {
	name       string
	begin, end int64
}

// bad is an error of the file or, if a name is given, of a tensor.
func (f *File) bad(tensor, format string, args ...any) error {
	return &FormatError{Path: f.path, Tensor: tensor, Problem: fmt.Sprintf(format, args...)}
}

func (f *File) parse() error {
	length := binary.LittleEndian.Uint64(f.content)
	if length > maxHeader {
		return f.bad("", "the header would have %d bytes, more than the %d allowed: not a safetensors file, or a "+
			"damaged one", length, maxHeader)
	}
	if rest := uint64(len(f.content) - 8); length > rest {
		return f.bad("", "the header should have %d bytes, but only %d follow: the file is cut short", length, rest)
	}
	header, data := f.content[8:8+length], f.content[8+length:]
	if !utf8.Valid(header) {
		return f.bad("", "the header is not UTF-8")
	}
	if len(header) == 0 || header[0] != '{' {
		return f.bad("", "the header does not start with '{'")
	}
	f.tensors = map[string]Tensor{}
	var spans []span
	seenMetadata := false
	err := exactjson.Members(header, func(name string, value json.RawMessage) error {
		if name != metadataKey {
			s, err := f.parseTensor(name, value, data)
			spans = append(spans, s)
			return err
		}
		if seenMetadata {
			return f.bad("", "%s stands twice", metadataKey)
		}
		seenMetadata = true
		if err := json.Unmarshal(value, &f.metadata); err != nil {
			return f.bad("", "%s must hold strings only: %v", metadataKey, err)
		}
		return nil
	})
	if err != nil {
		if _, ok := errors.AsType[*FormatError](err); ok {
			return err
		}
		return f.bad("", "the header is not valid JSON: %v", err)
	}
	f.names = slices.Sorted(maps.Keys(f.tensors))
	return f.checkSpans(spans, int64(len(data)))
}

// parseTensor reads a tensor's entry of the header.
func (f *File) parseTensor(name string, value json.RawMessage, data []byte) (span, error) {
	var entry struct {
		DType   *DType    `json:"dtype"`
		Shape   *[]int64  `json:"shape"`
		Offsets *[]uint64 `json:"data_offsets"`
	}
	fail := func(format string, args ...any) (span, error) { return span{}, f.bad(name, format, args...) }
	if _, twice := f.tensors[name]; twice {
		return fail("stands twice in the header")
	}
	if err := json.Unmarshal(value, &entry); err != nil {
		return fail("%v", err)
	}
	switch {
	case entry.DType == nil || entry.Shape == nil || entry.Offsets == nil:
		return fail("needs dtype, shape and data_offsets, has %s", clip(value))
	case entry.DType.Size() == 0:
		return fail("data type %q is not supported (supported: %v)", *entry.DType, layoutOrder)
	case len(*entry.Offsets) != 2:
		return fail("data_offsets must be two numbers, are %v", *entry.Offsets)
	}
	begin, end := (*entry.Offsets)[0], (*entry.Offsets)[1]
	if begin > end {
		return fail("data_offsets [%d, %d] run backwards", begin, end)
	}
	if end > uint64(len(data)) {
		return fail("its data should end at byte %d, but the file has %d after the header: it is cut short or damaged",
			end, len(data))
	}
	size, err := byteSize(*entry.DType, *entry.Shape)
	if err != nil {
		return fail("%v", err)
	}
	if uint64(size) != end-begin {
		return fail("shape %v of %s takes %d bytes, but data_offsets [%d, %d] hold %d", *entry.Shape, *entry.DType, size,
			begin, end, end-begin)
	}
	f.tensors[name] = Tensor{Name: name, DType: *entry.DType, Shape: *entry.Shape, Data: data[begin:end:end]}
	return span{name, int64(begin), int64(end)}, nil
}

// checkSpans refuses tensors that do not fill the data one behind the other.
func (f *File) checkSpans(spans []span, size int64) error {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	end := int64(0)
	for i, s := range spans {
		switch {
		case s.begin < end:
			return f.bad(s.name, "its data [%d, %d] overlap the data of %q, which end at %d", s.begin, s.end, spans[i-1].name, end)
		case s.begin > end:
			return f.bad(s.name, "its data start at byte %d, leaving a gap of %d bytes that belong to no tensor",
				s.begin, s.begin-end)
		}
		end = s.end
	}
	if end != size {
		return f.bad("", "%d bytes follow the last tensor's data, which end at byte %d", size-end, end)
	}
	return nil
}

// clip shortens text for a message.
func clip(text []byte) string {
	const limit = 80
	if len(text) <= limit {
		return string(text)
	}
	return string(bytes.ToValidUTF8(text[:limit], nil)) + "…"
}
