package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/datasets/clients"
	"popri/internal/parquetio"
)

func TestDataImport(t *testing.T) {
	dir := t.TempDir()
	posts := write(t, dir, "posts.csv",
		"author,body,created,topic\nann,one two three,2001-02-03,x\nbob,four,2001-02-04,y\nbob, ,2001-02-04,y\n")
	out := filepath.Join(dir, "clients.parquet")
	args := []string{"data", "import", posts, "--client", "author", "--text", "body", "--date", "created", "--label",
		"topic", "--out", out}
	if code, _, errs := popri(t, args...); code != exitUsage ||
		!strings.Contains(errs, posts+": line 4: text is blank (1 bytes)") {
		t.Errorf("a blank text: exit code %d, %s", code, errs)
	}
	code, printed, errs := popri(t, append(args, "--skip-blank", "--split-shares", "1,0,0", "--span-words", "2",
		"--json")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	v := decode(t, printed)
	if v["rows"] != 3.0 || v["clients"] != 2.0 || v["manifest"].(map[string]any)["texts_read"] != 3.0 {
		t.Errorf("%s", printed)
	}
	if p, err := clients.Read(out); err != nil || p.Clients[0].Texts[1] != "three" || p.Clients[1].Label != "y" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := os.Stat(out + clients.ManifestSuffix); err != nil {
		t.Error(err)
	}

	train := write(t, dir, "train.json", `{"ann": ["one"], "bob": ["two"]}`)
	eval := write(t, dir, "eval.json", `["three"]`)
	code, printed, errs = popri(t, "data", "import", "--json", "--out", out, "train="+train, "validation="+eval)
	if code != 0 || decode(t, printed)["splits"].(map[string]any)["validation"].(map[string]any)["clients"] != 1.0 {
		t.Errorf("exit code %d, %s%s", code, printed, errs)
	}

	tokens := filepath.Join(dir, "no-tokenizer")
	for want, args := range map[string][]string{
		"no file is named":              {},
		"names no file":                 {train},
		"is one of the files to import": {train, "--out", train},
		"is a folder":                   {"train=" + train, "--out", dir},
		"go together":                   {"train=" + train, "--span-tokens", "4", "--out", out},
		"no-tokenizer":                  {"train=" + train, "--span-tokens", "4", "--tokenizer", tokens, "--out", out},
		"is a file of the clients":      {"train=" + train, "--deduplicate", "near", "--public", train, "--out", out},
		"has a column client_id": {"train=" + train, "--deduplicate", "near", "--public",
			clientFile(t, []clientRow{{"a", "train", "", "x"}}), "--out", out},
		"it is a file of clients": {"train=" + train, "--deduplicate", "near", "--public",
			write(t, dir, "other.json", `{"a": ["x"]}`), "--out", out},
		"public text goes with": {"train=" + train, "--public", eval, "--out", out},
		"want three shares":     {train, "--split-shares", "0.5,0.5", "--out", out},
		`"x" is no number`:      {train, "--split-shares", "x,0,0", "--out", out},
	} {
		if code, _, errs := popri(t, append([]string{"data", "import"}, args...)...); code != exitUsage ||
			!strings.Contains(errs, want) || !strings.HasPrefix(errs, "popri: data import: ") &&
			!strings.Contains(errs, "read ") {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, errs, want)
		}
	}
}

func TestDataPushReadyRefuses(t *testing.T) {
	for want, args := range map[string][]string{"--out names no folder": {t.TempDir()},
		"is no run": {t.TempDir(), "--out", filepath.Join(t.TempDir(), "hub")}} {
		if code, _, errs := popri(t, append([]string{"data", "push-ready"}, args...)...); code != exitUsage ||
			!strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, errs, want)
		}
	}
}

// Files as people have them import with one command each.
func TestMessyFiles(t *testing.T) {
	type author struct {
		Name string `parquet:"name"`
		UID  int64  `parquet:"uid"`
	}
	var b bytes.Buffer
	err := parquetio.Write(&b, []struct {
		User author    `parquet:"user"`
		UID  int64     `parquet:"uid"`
		ID   [16]byte  `parquet:"id,uuid"`
		Post string    `parquet:"post"`
		At   time.Time `parquet:"at,timestamp(microsecond)"`
	}{{author{"author 001", 1}, 1, [16]byte{1}, "The kettle was on.", time.Date(2021, 5, 22, 23, 0, 0, 0, time.UTC)}},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	parquet := write(t, t.TempDir(), "struct-int.parquet", b.String())
	messy := func(name string) string { return filepath.Join("testdata", "messy", name) }
	for _, c := range []struct {
		file, flags, ids, date, text string // of all clients, and of the first text
		texts                        int
	}{
		{messy("semicolon.csv"), "--client who --text entry --date when --html --skip-blank",
			"author 001,author 002,author 003", "2015-05-24", "Bread & butter, said the sign.", 6},
		{messy("nested.jsonl"), "--client author.name --text body.text --date created --skip-blank --skip-bad 1",
			"author 001,author 002,author 003", "2015-05-24", "<p>Bread", 5},
		{messy("dates.jsonl"), "--client user_id --skip-bad 20%", "1,2,3", "2015-05-01", "<p>Bread", 6},
		{messy("day-first.tsv"), "--client user --date-format DD/MM/YYYY --skip-blank",
			"author 001,author 002,author 003", "2015-05-24", "<p>Bread", 6},
		{messy("latin1.csv"), "--client user --encoding latin1", "author 001,author 002,author 003", "",
			"<p>Bread &amp; butter, said the sign.</p><script>var a=1;</script> déjà vu", 7},
		{messy("backslash.csv"), "--client user --backslash --skip-blank", "author 001,author 002,author 003", "",
			"<p>Bread", 6},
		{parquet, "--client user.name --text post --date at", "author 001", "2021-05-22", "The kettle was on.", 1},
		{parquet, "--client uid --text post --date at", "1", "2021-05-22", "The kettle was on.", 1},
		{parquet, "--client id --text post", "01000000-0000-0000-0000-000000000000", "", "The kettle was on.", 1},
	} {
		out := filepath.Join(t.TempDir(), "clients.parquet")
		args := append([]string{"data", "import", c.file, "--out", out, "--json"}, strings.Fields(c.flags)...)
		code, printed, errs := popri(t, args...)
		if code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
			continue
		}
		p, err := clients.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, client := range p.Clients {
			ids = append(ids, client.ID)
		}
		first, date := p.Clients[0], p.Clients[0].Date
		if first.Dates != nil {
			date = first.Dates[0]
		}
		if strings.Join(ids, ",") != c.ids || date != c.date || !strings.HasPrefix(first.Texts[0], c.text) ||
			clients.Count(p.Clients).Texts != c.texts {
			t.Errorf("%v: %v, %d texts, first %q of %q", args, ids, clients.Count(p.Clients).Texts, first.Texts[0],
				date)
		}
		if left := strings.Contains(printed, `"bad row: `); left != strings.Contains(c.flags, "skip-bad") {
			t.Errorf("%v: %s", args, printed)
		}
	}

	// What is in the way is said with the flag that helps.
	out := filepath.Join(t.TempDir(), "clients.parquet")
	for want, args := range map[string][]string{
		"it has who, when, entry":                                   {messy("semicolon.csv")},
		"it has author.mail, author.name, body.text, created, tags": {messy("nested.jsonl"), "--client", "author"},
		"line 3: date is no date of a known form": {messy("day-first.tsv"), "--client", "user",
			"--skip-blank"},
		"(--date-format names another form": {messy("day-first.tsv"), "--client", "user",
			"--skip-blank"},
		"line 2: wrong encoding: not UTF-8":             {messy("latin1.csv"), "--client", "user"},
		"(--encoding names the file's encoding":         {messy("latin1.csv"), "--client", "user"},
		"(--backslash, if a backslash escapes them)":    {messy("backslash.csv"), "--client", "user"},
		"it has user.name, user.uid, uid, id, post, at": {parquet},
		"the file has user.name, user.uid": {parquet, "--client", "user", "--text",
			"post"},
		"1 of 7 rows are bad and 0 may be (bad row: text is null: 1 te": {messy("dates.jsonl"), "--client", "user_id",
			"--skip-bad", "5%"},
		`the most bad rows are "many"`: {messy("dates.jsonl"), "--skip-bad", "many"},
		`the date format is "%d/%m/%Y", want YYYY`: {messy("day-first.tsv"), "--date-format",
			"%d/%m/%Y"},
	} {
		if code, printed, errs := popri(t,
			append([]string{"data", "import", "--out", out}, args...)...); code != exitUsage ||
			!strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, printed+errs, want)
		}
	}
}

// A folder's files that are no text are counted, and pages are read without their tags.
func TestDataBuild(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "ann.html",
		"<html><head><title>No</title></head><body><p>One two &amp; three four five six.</p><p>Too "+
			"short.</p></body></html>")
	write(t, dir, "bob.txt", "A text of seven words in all.\n\nAnd another one of some more words.")
	write(t, dir, "photo.jpg", "\xff\xd8\xff\xe0\x00\x10")
	out := filepath.Join(t.TempDir(), "clients.parquet")
	args := []string{"data", "build", dir, "--out", out, "--words", "6", "--validation", "0", "--test", "0", "--json"}
	if code, _, errs := popri(t, args...); code != exitUsage ||
		!strings.Contains(errs, "photo.jpg: bad file: line 1: wrong encoding") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	code, printed, errs := popri(t, append(args, "--skip-bad", "1")...)
	left := `"left_out":[{"reason":"bad row: wrong encoding","texts":1},{"reason":"too few words","texts":4}]`
	if code != 0 || !strings.Contains(printed, left) {
		t.Errorf("exit code %d, %s%s", code, printed, errs)
	}
	p, err := clients.Read(out)
	if err != nil || len(p.Clients) != 2 || p.Clients[0].Texts[0] != "One two & three four five" ||
		p.Clients[1].ID != "bob" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := os.Stat(out + clients.ManifestSuffix); err != nil {
		t.Error(err)
	}
}
