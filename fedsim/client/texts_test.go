package client

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/testkit/testfile"
)

const mails = `From a@example Mon Jan  1 00:00:00 2024
Date: Mon, 1 Jan 2024 10:00:00 +0000
Content-Type: multipart/alternative; boundary="b"

--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

The train was =
late.
--b
Content-Type: text/html

<p>The train was late.</p>
--b--

From b@example Tue Jan  2 00:00:00 2024
Date: Tue, 2 Jan 2024 10:00:00 +0000
Content-Transfer-Encoding: base64

UmFpbiBhZ2Fpbi4=

From c@example Wed Jan  3 00:00:00 2024
Date: Wed, 3 Jan 2024 10:00:00 +0000

> The train was late.
So was mine.
`

func TestTexts(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"mail.mbox": mails, "notes/a.txt": "one\n\ntwo\n",
		"notes/b.txt": "three\n", "both/todo.md": "four\n", "both/todo.txt": "five\n", "clients.jsonl": `{"client_id":"a","text":"mine","date":"2024-05-01"}` + "\n" +
			`{"client_id":"b","text":"not mine"}` + "\n" +
			`{"client_id":"a","text":"mine too"}` + "\n"} {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	for _, c := range []struct {
		source Source
		since  string
		want   []string
	}{
		{Source{Path: "mail.mbox"}, "", []string{"The train was late.", "Rain again.", "So was mine."}},
		{Source{Path: "mail.mbox"}, "2024-01-02", []string{"Rain again.", "So was mine."}},
		{Source{Path: "mail.mbox", Most: 1}, "", []string{"So was mine."}},
		{Source{Path: "notes"}, "", []string{"one", "two", "three"}},
		{Source{Path: "both"}, "", []string{"four", "five"}},
		{Source{Path: "clients.jsonl", Client: "a"}, "", []string{"mine", "mine too"}},
		{Source{Path: "clients.jsonl", Client: "a"}, "2024-06-01", []string{"mine too"}}, // without a date it counts
		{Source{Path: "-", In: strings.NewReader("\n\none\nline\n\n\ntwo")}, "", []string{"one line", "two"}},
		{Source{Path: "-", In: strings.NewReader("")}, "", nil},
	} {
		if c.source.Path != "-" {
			c.source.Path = filepath.Join(dir, c.source.Path)
		}
		got, err := c.source.Read(c.since)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v since %q: %q, %v, want %q", c.source, c.since, got, err, c.want)
		}
	}
	secret := testfile.Write(t, filepath.Join(dir, "bad.mbox"), "my secret\n")
	if _, err := (Source{Path: secret}).Read(""); !fault.IsUser(err) || strings.Contains(err.Error(), "my secret") {
		t.Errorf("no mailbox: %v", err)
	}
}

// A damaged message is left out and told of, without what it says.
func TestDamagedMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.mbox")
	content := "From a\nno header: secret\nsecret\n\nFrom b\n\tbroken secret\n\nFrom c\nSubject: x\n\nRain.\n"
	testfile.Write(t, path, content)
	var told []string
	s := Source{Path: path, Damaged: func(err error) { told = append(told, err.Error()) }}
	texts, err := s.Read("")
	if err != nil || !slices.Equal(texts, []string{"Rain."}) {
		t.Errorf("%q, %v", texts, err)
	}
	if all := strings.Join(told, "\n"); len(told) != 2 || strings.Contains(all, "secret") ||
		!strings.Contains(all, "message 2: its header is damaged") {
		t.Errorf("told is %q", told)
	}
}
