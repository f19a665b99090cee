package clients

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"

	"popri/datasets/records"
	"popri/internal/extsort"
)

// imported is a client under way.
type imported struct {
	id    string
	texts []importedText
}

// importedText is a text with where it comes from.
type importedText struct {
	text, date, label string
	split             Split // named by its file, empty if it is not
	file              int   // of the import's files
	position          records.Position
}

var units = []string{"row", "line", "entry", "key", "file", "message"}

// encode appends a text in the form that [decodeText] reads.
func (t *importedText) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(t.file))
	b = binary.AppendUvarint(b, uint64(slices.Index(units, t.position.Unit)))
	b = binary.AppendUvarint(b, uint64(t.position.Number))
	list := 0
	if t.position.List {
		list = 1 + t.position.Text
	}
	b = binary.AppendUvarint(b, uint64(list))
	for _, s := range []string{string(t.split), t.date, t.label, t.text} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// decodeText reads what this process wrote.
func decodeText(b []byte) (t importedText) {
	number := func() int {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return int(n)
	}
	t.file = number()
	t.position.Unit, t.position.Number = units[number()], int64(number())
	if list := number(); list > 0 {
		t.position.List, t.position.Text = true, list-1
	}
	for _, s := range []*string{(*string)(&t.split), &t.date, &t.label, &t.text} {
		n := number()
		*s, b = string(b[:n]), b[n:]
	}
	return t
}

// spool keeps clients in a temporary file, in the order in which they come.
type spool struct {
	file    *os.File
	out     *bufio.Writer
	clients int64
	frame   []byte
}

func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "spool-")
	if err != nil {
		return nil, err
	}
	return &spool{file: file, out: bufio.NewWriterSize(file, 256<<10)}, nil
}

func (s *spool) close() error { return errors.Join(s.file.Close(), os.Remove(s.file.Name())) }

func (s *spool) add(c *imported) error {
	s.clients++
	s.frame = binary.AppendUvarint(s.frame[:0], uint64(len(c.texts)))
	s.frame = append(s.frame, c.id...)
	if err := extsort.WriteFrame(s.out, s.frame); err != nil {
		return err
	}
	for i := range c.texts {
		s.frame = c.texts[i].encode(s.frame[:0])
		if err := extsort.WriteFrame(s.out, s.frame); err != nil {
			return err
		}
	}
	return nil
}

// reader reads a spool from its beginning.
type reader struct {
	in    *bufio.Reader
	frame []byte
	c     imported // the newest client
	end   bool
}

func (s *spool) reader() (*reader, error) {
	if err := s.out.Flush(); err != nil {
		return nil, err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return &reader{in: bufio.NewReaderSize(s.file, 256<<10)}, nil
}

func (r *reader) next() (err error) {
	if r.frame, err = extsort.ReadFrame(r.in, r.frame); err == io.EOF {
		r.end = true
		return nil
	} else if err != nil {
		return err
	}
	n, size := binary.Uvarint(r.frame)
	r.c = imported{id: string(r.frame[size:])}
	for range n {
		if r.frame, err = extsort.ReadFrame(r.in, r.frame); err != nil {
			return err
		}
		r.c.texts = append(r.c.texts, decodeText(r.frame))
	}
	return nil
}

func (s *spool) each(do func(*imported) error) error {
	r, err := s.reader()
	for err == nil {
		if err = r.next(); err != nil || r.end {
			break
		}
		err = do(&r.c)
	}
	return err
}

// merge calls do with the clients of all splits in the order of IDs.
func merge(spools map[Split]*spool, do func(Split, *imported) error) error {
	readers := map[Split]*reader{}
	for _, s := range Splits {
		r, err := spools[s].reader()
		if err == nil {
			err = r.next()
		}
		if err != nil {
			return err
		}
		readers[s] = r
	}
	for {
		var first Split
		for _, s := range Splits {
			if r := readers[s]; !r.end && (first == "" || r.c.id < readers[first].c.id) {
				first = s
			}
		}
		if first == "" {
			return nil
		}
		r := readers[first]
		if err := do(first, &r.c); err != nil {
			return err
		}
		if err := r.next(); err != nil {
			return err
		}
	}
}
