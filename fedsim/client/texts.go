package client

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"path/filepath"
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
	// Damaged, where not nil, is told of each message of a mailbox that cannot be read, and that is left out.
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
	case strings.EqualFold(filepath.Ext(s.Path), ".mbox"):
		err = s.mailbox(add)
	default:
		err = records.Read(s.Path, records.Options{}, func(r records.Record) error {
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

// maxMessage bounds a message of a mailbox.
const maxMessage = 1 << 24

// mailbox reads a mailbox in the mbox format (RFC 4155): of each message its plain text, without quoted lines.
func (s Source) mailbox(add func(text, date string)) error {
	f, err := fault.Open(s.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	damaged := func(err error) {
		if s.Damaged != nil {
			s.Damaged(fmt.Errorf("%s: %w", s.Path, err))
		}
	}
	if err := messages(f, add, damaged); err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	return nil
}

// messages calls add with each message, and damaged for each that cannot be read.
func messages(f io.Reader, add func(text, date string), damaged func(error)) error {
	in := bufio.NewReaderSize(f, 1<<16)
	var message bytes.Buffer
	inside, number := false, 0
	flush := func() {
		if !inside {
			return
		}
		number++
		if text, date, err := plainText(message.Bytes()); err != nil {
			damaged(fmt.Errorf("message %d cannot be read: %w", number, err))
		} else {
			add(text, date)
		}
	}
	for {
		line, err := in.ReadBytes('\n')
		if bytes.HasPrefix(line, []byte("From ")) {
			flush()
			message.Reset()
			inside = true
		} else if !inside && len(bytes.TrimSpace(line)) > 0 {
			return errors.New("it does not begin with a line \"From …\", as a mailbox does")
		} else if message.Len() < maxMessage {
			message.Write(line)
		}
		if errors.Is(err, io.EOF) {
			flush()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// plainText is the text of a message and its date as YYYY-MM-DD, "" if it has none.
func plainText(content []byte) (text, date string, err error) {
	m, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return "", "", errors.New("its header is damaged") // the error may quote it
	}
	if when, err := m.Header.Date(); err == nil {
		date = when.Format("2006-01-02")
	}
	body, err := part(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body, 0)
	if err != nil {
		return "", "", errors.New("its body is damaged")
	}
	var own []string
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, ">") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	return strings.Join(own, " "), date, nil
}

// part is the plain text of a message or of a part of one. Parts of other kinds are left out.
func part(kind, encoding string, body io.Reader, depth int) (string, error) {
	media, parameters, err := mime.ParseMediaType(kind)
	if kind == "" || err != nil {
		media = "text/plain"
	}
	if strings.HasPrefix(media, "multipart/") && depth < 8 {
		var all []string
		for parts := multipart.NewReader(body, parameters["boundary"]); ; {
			p, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				return strings.Join(all, "\n"), nil
			}
			if err != nil {
				return "", err
			}
			text, err := part(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p, depth+1)
			if err != nil {
				return "", err
			}
			if text != "" {
				all = append(all, text)
			}
		}
	}
	if media != "text/plain" {
		return "", nil
	}
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	content, err := io.ReadAll(io.LimitReader(body, maxMessage))
	return strings.ToValidUTF8(string(content), "�"), err
}
