// Package extsort sorts more records than fit into memory: sorted runs are in a temporary file and are merged.
package extsort

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
)

// defaultMemory is the size in bytes of a run: what a Sorter holds before it writes to its file.
const defaultMemory = 64 << 20

// entryBytes is what a record costs besides its key and value.
const entryBytes = 48

// Sorter sorts records by their keys' bytes. Records of equal keys keep their order.
type Sorter struct {
	dir    string
	memory int
	file   *os.File
	runs   []int64 // where each run ends in the file
	held   []entry
	arena  []byte
}

type entry struct {
	key      string
	from, to int // of the value in the arena
}

// New returns an empty sorter that makes its file in dir when it needs one. memory is the size of a run, defaultMemory if 0.
func New(dir string, memory int) *Sorter {
	return &Sorter{dir: dir, memory: cmp.Or(memory, defaultMemory)}
}

// Add adds a record. It copies value.
func (s *Sorter) Add(key string, value []byte) error {
	if len(s.held) > 0 && len(s.arena)+len(value)+(len(s.held)+1)*entryBytes > s.memory {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if n := len(s.held); n > 0 && s.held[n-1].key == key {
		key = s.held[n-1].key // neighbours share their key's bytes
	}
	from := len(s.arena)
	s.arena = append(s.arena, value...)
	s.held = append(s.held, entry{key, from, len(s.arena)})
	return nil
}

func (s *Sorter) sort() {
	slices.SortStableFunc(s.held, func(a, b entry) int { return strings.Compare(a.key, b.key) })
}

func (s *Sorter) spill() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "sort-")
		if err != nil {
			return err
		}
		s.file = file
	}
	s.sort()
	w := bufio.NewWriterSize(s.file, 256<<10)
	for _, e := range s.held {
		if err := WriteFrame(w, []byte(e.key)); err != nil {
			return err
		}
		if err := WriteFrame(w, s.arena[e.from:e.to]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	end, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, end)
	s.held, s.arena = s.held[:0], s.arena[:0]
	return nil
}

// Each calls do with every record in order. value is valid until do returns, whose error is returned as it is. After
// it, records may not be added.
func (s *Sorter) Each(do func(key string, value []byte) error) error {
	if s.file == nil {
		s.sort()
		for _, e := range s.held {
			if err := do(e.key, s.arena[e.from:e.to]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(s.held) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.held, s.arena = nil, nil
	var h runHeap
	from := int64(0)
	for i, to := range s.runs {
		r := &run{number: i, in: bufio.NewReaderSize(io.NewSectionReader(s.file, from, to-from), 128<<10)}
		from = to
		if err := r.next(); err != nil {
			return err
		}
		h = append(h, r)
	}
	heap.Init(&h)
	for len(h) > 0 {
		r := h[0]
		if err := do(r.key, r.value); err != nil {
			return err
		}
		switch err := r.next(); {
		case err == io.EOF:
			heap.Pop(&h)
		case err != nil:
			return err
		default:
			heap.Fix(&h, 0)
		}
	}
	return nil
}

// Close removes the temporary file.
func (s *Sorter) Close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

// run is a sorted part of the file with its first unused record.
type run struct {
	number int
	in     *bufio.Reader
	key    string
	value  []byte
	buffer []byte
}

func (r *run) next() (err error) {
	if r.buffer, err = ReadFrame(r.in, r.buffer); err != nil {
		return err
	}
	if string(r.buffer) != r.key {
		r.key = string(r.buffer)
	}
	r.value, err = ReadFrame(r.in, r.value)
	return err
}

type runHeap []*run

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	return cmp.Or(strings.Compare(h[i].key, h[j].key), cmp.Compare(h[i].number, h[j].number)) < 0
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*run)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// WriteFrame writes bytes after their length.
func WriteFrame(w io.Writer, b []byte) error {
	var length [binary.MaxVarintLen64]byte
	if _, err := w.Write(binary.AppendUvarint(length[:0], uint64(len(b)))); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// ReadFrame reads what [WriteFrame] wrote, into buffer if it is large enough. It returns io.EOF at the end.
func ReadFrame(r *bufio.Reader, buffer []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	buffer = slices.Grow(buffer[:0], int(n))[:n]
	if _, err := io.ReadFull(r, buffer); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return buffer, nil
}
