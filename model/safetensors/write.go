package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/internal/atomicfile"
)

// Write writes the tensors to a new file, which replaces path in one step (see internal/atomicfile). The order of the
// argument does not matter: tensors are laid out by falling size of their type and then by name, and the header is
// padded to 8 bytes, so that the same content gives the same bytes as the reference implementation. metadata may be
// nil; PyTorch programs expect {"format": "pt"}.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	streams := make([]Stream, len(tensors))
	for i, t := range tensors {
		if err := t.check(); err != nil {
			return fmt.Errorf("safetensors: %s: %w", path, err)
		}
		streams[i] = Stream{Name: t.Name, DType: t.DType, Shape: t.Shape, Write: func(w io.Writer) error {
			_, err := w.Write(t.Data)
			return err
		}}
	}
	return WriteStreams(path, streams, metadata)
}

// Stream is a tensor whose values are made while they are written, so that they are never in memory together.
type Stream struct {
	Name  string
	DType DType
	Shape []int64
	// Write writes the values in row-major order, little endian: as many bytes as type and shape take.
	Write func(w io.Writer) error
}

// WriteStreams does what [Write] does with tensors that are made one after the other. Their Write functions are called
// in the order of the file. An error of one leaves path as it was, and can be found by errors.Is and errors.As.
func WriteStreams(path string, tensors []Stream, metadata map[string]string) error {
	fail := func(err error) error { return fmt.Errorf("safetensors: %s: %w", path, err) }
	sorted := slices.Clone(tensors)
	slices.SortFunc(sorted, func(a, b Stream) int {
		if a.DType != b.DType {
			return a.DType.rank() - b.DType.rank()
		}
		return strings.Compare(a.Name, b.Name)
	})
	names := make(map[string]bool, len(sorted))
	sizes := make([]int64, len(sorted))
	for i, t := range sorted {
		switch {
		case t.DType.Size() == 0:
			return fail(fmt.Errorf("tensor %q: data type %q is not supported (supported: %v)", t.Name, t.DType, layoutOrder))
		case t.Name == metadataKey:
			return fail(fmt.Errorf("a tensor cannot be named %s", metadataKey))
		case !utf8.ValidString(t.Name):
			return fail(fmt.Errorf("tensor name %q is not UTF-8", t.Name))
		case names[t.Name]:
			return fail(fmt.Errorf("tensor %q is given twice", t.Name))
		}
		names[t.Name] = true
		var err error
		if sizes[i], err = byteSize(t.DType, t.Shape); err != nil {
			return fail(fmt.Errorf("tensor %q: %w", t.Name, err))
		}
	}
	header, err := encodeHeader(sorted, sizes, metadata)
	if err != nil {
		return fail(err)
	}
	err = atomicfile.Write(path, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		for i, t := range sorted {
			c := &counter{w: w}
			if err := t.Write(c); err != nil {
				return err
			}
			if c.n != sizes[i] {
				return fmt.Errorf("tensor %q: shape %v of %s takes %d bytes, but %d were written", t.Name, t.Shape,
					t.DType, sizes[i], c.n)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// counter counts the bytes that pass through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// encodeHeader returns the length field and the padded JSON for tensors of the given sizes in bytes.
func encodeHeader(sorted []Stream, sizes []int64, metadata map[string]string) ([]byte, error) {
	out := append(make([]byte, 8), '{')
	if metadata != nil {
		out = append(out, `"`+metadataKey+`":{`...)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, fmt.Errorf("metadata %q: %q is not UTF-8", key, metadata[key])
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendString(out, key), ':')
			out = appendString(out, metadata[key])
		}
		out = append(out, '}')
	}
	offset := int64(0)
	for i, t := range sorted {
		if i > 0 || metadata != nil {
			out = append(out, ',')
		}
		out = appendString(out, t.Name)
		shape := strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ",")
		out = fmt.Appendf(out, `:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, t.DType, shape, offset, offset+sizes[i])
		offset += sizes[i]
	}
	out = append(out, '}')
	for len(out)%8 != 0 {
		out = append(out, ' ')
	}
	length := len(out) - 8
	if length > maxHeader {
		return nil, fmt.Errorf("the header of %d tensors takes %d bytes, more than the %d allowed", len(sorted),
			length, maxHeader)
	}
	binary.LittleEndian.PutUint64(out, uint64(length))
	return out, nil
}

// appendString appends a JSON string that escapes only what JSON requires. encoding/json escapes more (<, U+2028), and
// the bytes would differ from the reference's.
func appendString(out []byte, s string) []byte {
	const escaped, letters = "\"\\\n\r\t\b\f", `"\nrtbf`
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case strings.IndexByte(escaped, c) >= 0:
			out = append(out, '\\', letters[strings.IndexByte(escaped, c)])
		case c < 0x20:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
