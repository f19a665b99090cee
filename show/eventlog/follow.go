package eventlog

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
)

// maxLine is the longest line that a [Follower] reads, so that its memory is bounded. popri's own lines are far
// shorter.
const maxLine = 1 << 20

// Follower reads a log while another process writes it. It keeps the position after the last whole line, because half a
// line at the end may still be completed, or removed by a process that resumes the run. The zero value of all but Path
// is ready.
type Follower struct {
	Path string
	// Skipped counts lines that are no event or longer than [maxLine].
	Skipped int

	file     os.FileInfo // what was read last
	offset   int64       // after the last whole line
	skipping bool        // offset is inside of a line that is too long
	reader   *bufio.Reader
}

// Poll calls each for every event that was completed since the last call. If the file is another one than before, or
// shorter than what was read, it calls restart first and reads from the beginning. A log that does not exist yet has no
// events.
func (f *Follower) Poll(restart func(), each func(Event)) error {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if f.file != nil && (!os.SameFile(f.file, info) || info.Size() < f.offset) {
		*f = Follower{Path: f.Path, reader: f.reader}
		restart()
	}
	f.file = info
	if info.Size() == f.offset {
		return nil
	}
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return err
	}
	return f.read(file, each)
}

// read consumes the whole lines of what is left of the log.
func (f *Follower) read(log io.Reader, each func(Event)) error {
	if f.reader == nil {
		f.reader = bufio.NewReaderSize(nil, maxLine)
	}
	f.reader.Reset(log)
	for {
		line, err := f.reader.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // the line is too long: what follows of it is not kept
			f.skipping = true
		case errors.Is(err, io.EOF):
			if f.skipping {
				f.offset += int64(len(line))
			}
			return nil
		case err != nil:
			return err
		default:
			if event, err := parseEvent(line); err != nil || f.skipping { // or the end of a line that was too long
				f.skipping = false
				f.Skipped++
			} else {
				each(event)
			}
		}
		f.offset += int64(len(line))
	}
}
