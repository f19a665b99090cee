package client

import (
	"bufio"
	"io"
	"strings"

	"popri/datasets/records"
	"popri/internal/fault"
)

// Source says where a client's texts are.
type Source struct {
	// Path is a mailbox (.mbox), a folder, a file of package records, or "-" for paragraphs on In.
	Path string
	In   io.Reader
	// Client is whose texts count in a file of several clients; "" takes all.
	Client string
	// Most is how many texts count, the last ones of the source; 0 for all.
	Most int
	// Damaged, where not nil, is told of each record or message that cannot be read, and that is left out.
	Damaged func(error)
}

// Read returns the texts, those with a date before since left out.
func (s Source) Read(since string) ([]string, error) {
	var texts []string
	add := func(text, date string) {
		if text = strings.TrimSpace(text); text != "" && (since == "" || date == "" || date >= since) {
			texts = append(texts, text)
		}
	}
	var err error
	switch {
	case s.Path == "-":
		err = paragraphs(s.In, func(text string) { add(text, "") })
	default:
		o := records.Options{OneClient: s.Client == "", Bad: func(_ records.Position, err *records.Error) error {
			if s.Damaged != nil {
				s.Damaged(err)
			}
			return nil
		}}
		err = records.Read(s.Path, o, func(r records.Record) error {
			if s.Client == "" || r.Client.Value == s.Client {
				add(r.Text.Value, r.Date.Value)
			}
			return nil
		})
	}
	if err != nil {
		return nil, fault.User(err)
	}
	if s.Most > 0 && len(texts) > s.Most {
		texts = texts[len(texts)-s.Most:]
	}
	return texts, nil
}

// paragraphs are separated by blank lines.
func paragraphs(in io.Reader, add func(string)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	var paragraph []string
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			paragraph = append(paragraph, line)
			continue
		}
		add(strings.Join(paragraph, " "))
		paragraph = nil
	}
	add(strings.Join(paragraph, " "))
	return lines.Err()
}
