package records

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
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"popri/internal/fault"
)

// maxMessage bounds a message of a mailbox.
const maxMessage = 1 << 24

// readMailbox reads a mailbox in the mbox format (RFC 4155): of each message its plain text, or the text of its HTML
// where it has no other, without quoted lines, its date and the sender's address, which is the client. The dialect's
// encoding is of messages that name none.
func readMailbox(path string, o Options, do func(Record) error) error {
	f, err := fault.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := charset(o.Encoding); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return fault.User(err)
	}
	read := &told{f, 0, info.Size(), o.Progress}
	content, err := unpacked(read, path)
	if err != nil {
		return err
	}
	return readMessages(content, o, do)
}

// told says how much of a file is read.
type told struct {
	io.Reader
	done, total int64
	progress    func(done, total int64)
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if t.done += int64(n); t.progress != nil {
		t.progress(t.done, t.total)
	}
	return n, err
}

func readMessages(f io.Reader, o Options, do func(Record) error) error {
	in := bufio.NewReaderSize(f, 1<<16)
	var content bytes.Buffer
	inside, p := false, Position{Unit: "message"}
	flush := func() error {
		if !inside {
			return nil
		}
		p.Number++
		m, err := readMessage(content.Bytes(), o.Encoding)
		if err != nil {
			return o.passes(p, badAt(p, "%w", err))
		}
		m.Position = p
		return do(m)
	}
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case bytes.HasPrefix(line, []byte("From ")):
			if err := flush(); err != nil {
				return err
			}
			content.Reset()
			inside = true
		case !inside && len(bytes.TrimSpace(line)) > 0:
			return bad("it does not begin with a line \"From …\", as a mailbox does")
		case content.Len() < maxMessage:
			content.Write(line)
		}
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
	}
}

// readMessage is a message as a record; encoding is its text's where it names none. Its errors quote nothing.
func readMessage(content []byte, encoding string) (r Record, err error) {
	m, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return r, errors.New("its header is damaged") // the error may quote it
	}
	r = Record{Client: missing, Split: missing, Date: missing, Label: missing, Source: missing, HasClient: true}
	if when, err := m.Header.Date(); err == nil {
		r.Date = Cell{Value: when.Format("2006-01-02")}
	}
	if from, err := addresses.ParseList(m.Header.Get("From")); err == nil && len(from) > 0 {
		r.Client = Cell{Value: strings.ToLower(from[0].Address)}
	}
	read := func(kind string, body io.Reader) (string, error) {
		return part(kind, m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), encoding, body, 0)
	}
	whole, err := io.ReadAll(m.Body)
	body := ""
	if err == nil {
		body, err = read("text/plain", bytes.NewReader(whole))
	}
	if err == nil && strings.TrimSpace(body) == "" {
		body, err = read("text/html", bytes.NewReader(whole))
		body = PlainText(body)
	}
	switch {
	case errors.Is(err, ErrEncoding):
		return r, err
	case err != nil:
		return r, errors.New("its body is damaged")
	}
	var own []string
	for line := range strings.Lines(body) {
		if from, escaped := strings.CutPrefix(line, ">From "); escaped { // mbox marks such lines, which are no quotes
			line = "From " + from
		}
		if !strings.HasPrefix(line, ">") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	r.Text = Cell{Value: strings.TrimSpace(strings.Join(own, " "))}
	return r, nil
}

// part is the text of a message, or of a part of one, whose parts of other kinds than wanted are left out. transfer is
// its encoding in bytes, encoding its text's where it names none.
func part(wanted, kind, transfer, encoding string, body io.Reader, depth int) (string, error) {
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
			text, err := part(wanted, p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), encoding, p, depth+1)
			if err != nil {
				return "", err
			}
			if text != "" {
				all = append(all, text)
			}
		}
	}
	if media != wanted {
		return "", nil
	}
	switch strings.ToLower(transfer) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	from, err := htmlindex.Get(parameters["charset"])
	if err != nil { // it names none, or none that is known
		from, err = htmlindex.Get(encoding)
	}
	if err == nil && from != unicode.UTF8 {
		body = transform.NewReader(body, from.NewDecoder())
	}
	content, err := io.ReadAll(io.LimitReader(body, maxMessage))
	for n := 1; len(content) == maxMessage && n < utf8.UTFMax; n++ { // a character may be cut
		if last := content[len(content)-n:]; utf8.RuneStart(last[0]) && !utf8.FullRune(last) {
			content = content[:len(content)-n]
		}
	}
	if err == nil && !utf8.Valid(content) {
		err = fmt.Errorf("%w: its text is not UTF-8, and it names no other encoding that is known", ErrEncoding)
	}
	return string(content), err
}

// addresses reads addresses whose names are of any known encoding.
var addresses = mail.AddressParser{WordDecoder: &mime.WordDecoder{CharsetReader: func(charset string, in io.Reader) (io.Reader,
	error) {
	from, err := htmlindex.Get(charset)
	if err != nil { // the address is read all the same
		return in, nil
	}
	return transform.NewReader(in, from.NewDecoder()), nil
}}}
