package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"
	"time"
)

// Log appends events to a file. Its methods may be called concurrently.
type Log struct {
	mu   sync.Mutex
	file *os.File
}

// Open opens the log at path to append to it, or makes it. It removes a last line without an end, which a killed
// process leaves, so that every line is an object.
func Open(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	if err := seekToWholeLines(file); err != nil {
		return nil, errors.Join(fmt.Errorf("eventlog: %s: %w", path, err), file.Close())
	}
	return &Log{file: file}, nil
}

// seekToWholeLines cuts the file after the last line end and moves there.
func seekToWholeLines(file *os.File) error {
	content, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	end := int64(bytes.LastIndexByte(content, '\n') + 1)
	_, err = file.Seek(end, io.SeekStart)
	return errors.Join(file.Truncate(end), err)
}

// Write appends one event in one system call. Fields named "time" and "event" are refused.
func (l *Log) Write(event string, fields map[string]any) error {
	line := make(map[string]any, len(fields)+2)
	for name, v := range fields {
		if name == "time" || name == "event" {
			return fmt.Errorf("eventlog: event %q: a field cannot be named %q", event, name)
		}
		line[name] = v
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line["time"], line["event"] = time.Now().UTC().Format(time.RFC3339Nano), event
	encoded, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("eventlog: event %q: %w", event, err)
	}
	end, err := l.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("eventlog: event %q: %w", event, err)
	}
	if _, err := l.file.Write(append(encoded, '\n')); err != nil { // on a full disk, a part of the line may be there
		_, seek := l.file.Seek(end, io.SeekStart)
		return fmt.Errorf("eventlog: event %q: %w", event, errors.Join(err, l.file.Truncate(end), seek))
	}
	return nil
}

// Fields are the names and values of v as JSON, and the round. If v holds numbers that JSON lacks, "problem" says so instead.
func Fields(round int, v any) map[string]any {
	f := map[string]any{}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		f["problem"] = err.Error()
	}
	f["round"] = round
	return f
}

// Close flushes the log to the disk and closes it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.file.Sync(), l.file.Close()); err != nil {
		return fmt.Errorf("eventlog: %w", err)
	}
	return nil
}

// Event is a line of the log.
type Event struct {
	Time   time.Time
	Name   string
	Fields map[string]any
}

// Number returns a field; 0 if it is no number.
func (e Event) Number(field string) float64 {
	v, _ := e.Fields[field].(float64)
	return v
}

// Text returns a field; "" if it is no text.
func (e Event) Text(field string) string {
	v, _ := e.Fields[field].(string)
	return v
}

// Read iterates over the log at path. A log that is not there has no events. It skips a last line without an end, which a
// killed or a writing process leaves. Any other line that is not an event ends the iteration with an error that names it.
func Read(path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Event{}, fmt.Errorf("eventlog: %w", err))
			return
		}
		defer file.Close()
		reader := bufio.NewReader(file)
		for number := 1; ; number++ {
			line, err := reader.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			var event Event
			if err == nil {
				event, err = parseEvent(line)
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("eventlog: %s line %d: %w", path, number, err))
				return
			}
			if !yield(event, nil) {
				return
			}
		}
	}
}

func parseEvent(line []byte) (e Event, err error) {
	if err := json.Unmarshal(line, &e.Fields); err != nil {
		return e, err
	}
	name, ok := e.Fields["event"].(string)
	if !ok {
		return e, errors.New(`no "event"`)
	}
	text, _ := e.Fields["time"].(string)
	if e.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return e, fmt.Errorf("time: %w", err)
	}
	e.Name = name
	delete(e.Fields, "event")
	delete(e.Fields, "time")
	return e, nil
}
