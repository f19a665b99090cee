package records

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

const mails = `From a@example Mon Jan  1 00:00:00 2024
From: Ann <Ann@Example.org>
Date: Mon, 1 Jan 2024 10:00:00 +0000
Subject: none

> what did you see?
The train was late.

From b@example Tue Jan  2 00:00:00 2024
Subject: no sender, no date
Content-Type: text/plain
Content-Transfer-Encoding: quoted-printable

Rain =
again.
`

// Messages are records of their senders, quoted lines left out; a damaged one is passed over, and its error quotes nothing.
func TestMailbox(t *testing.T) {
	var got []Record
	var told []string
	o := Options{Bad: func(_ Position, err *Error) error {
		told = append(told, err.Error())
		return nil
	}}
	keep := func(r Record) error {
		got = append(got, r)
		return nil
	}
	if err := readMessages(strings.NewReader(mails+"From c\n\tbroken secret\n"), o, keep); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Client.Value != "ann@example.org" || got[0].Date.Value != "2024-01-01" ||
		got[0].Text.Value != "The train was late." || !got[1].Client.Null || !got[1].Date.Null ||
		got[1].Text.Value != "Rain again." || got[1].Position.String() != "message 2" {
		t.Errorf("%+v", got)
	}
	if all := strings.Join(told, ""); len(told) != 1 || !strings.Contains(all, "message 3") || strings.Contains(all, "secret") {
		t.Errorf("told is %q", told)
	}
	if err := readMessages(strings.NewReader("my secret\n"), o, keep); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no mailbox: %v", err)
	}
}

// TestMail: a charset is followed, or the dialect's where there is none, an escaped line is no quote, and HTML counts where there is no plain text.
func TestMail(t *testing.T) {
	const mails = "From a\nContent-Type: text/plain; charset=iso-8859-1\n\ncaf\xe9\n>From here on\n> quoted\n\n" +
		"From b\nFrom: =?windows-1252?Q?J=FCrgen?= <j@x>\nContent-Type: text/html; charset=windows-1252\n\n" +
		"<p>ten \x80</p><script>no</script>\n" +
		"From c\nFrom: =?klingon?Q?K=FC?= <k@x>\nContent-Type: text/plain; charset=unknown-8bit\n\nth\xe9\n"
	var got, from []string
	o := Options{Dialect: Dialect{Encoding: "windows-1253"}}
	err := readMessages(strings.NewReader(mails), o, func(r Record) error {
		got, from = append(got, r.Text.Value), append(from, r.Client.Value)
		return nil
	})
	if err != nil || strings.Join(got, "|") != "café From here on|ten €|thι" || strings.Join(from, "|") != "|j@x|k@x" {
		t.Errorf("%q from %q (%v)", got, from, err)
	}
	err = readMessages(strings.NewReader(mails), Options{}, func(Record) error { return nil })
	if !errors.Is(err, ErrEncoding) || !strings.Contains(err.Error(), "message 3") {
		t.Errorf("a text of an unknown encoding: %v", err)
	}
	o.Encoding = "klingon"
	if _, err := Names(testfile.Write(t, filepath.Join(t.TempDir(), "a.mbox"), mails), o.Dialect); err == nil || !strings.Contains(err.Error(), "klingon") {
		t.Errorf("an unknown encoding: %v", err)
	}
}

// TestCompressedMailbox: a mailbox is read through gzip, and how much of the file is read is told to its end.
func TestCompressedMailbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "Mail.MBOX.gz")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(mails))
	if err := errors.Join(err, w.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	var done, total int64
	records := 0
	o := Options{Progress: func(d, of int64) { done, total = d, of }}
	if err := Read(path, o, func(Record) error { records++; return nil }); err != nil || records != 2 ||
		done != total || total != int64(b.Len()) {
		t.Errorf("%d records, %d of %d bytes: %v", records, done, total, err)
	}
	testfile.Write(t, path, "no gzip")
	if err := Read(path, Options{}, func(Record) error { return nil }); err == nil || !strings.Contains(err.Error(), "Mail.MBOX.gz") {
		t.Errorf("no gzip: %v", err)
	}
}

func FuzzMailbox(f *testing.F) {
	f.Add([]byte(mails))
	f.Add([]byte("From x\n\nhello\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		err := readMessages(bytes.NewReader(b), Options{}, func(r Record) error {
			total += len(r.Text.Value)
			return nil
		})
		if err == nil && total > 3*len(b) { // a byte that is no UTF-8 becomes three
			t.Errorf("%d bytes of texts in %d", total, len(b))
		}
	})
}
