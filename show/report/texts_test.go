package report

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"popri/show/texts"
	"popri/testkit/testfile"
)

var embedded = regexp.MustCompile(`(?s)<script type="text/plain" id="texts-data">(.*?)</script>`)

// unpack reads the samples on a page as its script does.
func unpack(t testing.TB, page string) (p packed) {
	t.Helper()
	found := embedded.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no data")
	}
	zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(found[1])))
	if err == nil {
		err = json.NewDecoder(zip).Decode(&p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sample(round, rank int, score float64, mark texts.Mark, text string) Text {
	return Text{round, texts.Sample{Rank: rank, Score: score, Mark: mark, Text: text}}
}

// Every sample is on the page with what is known of it; hostile ones can do nothing.
func TestTexts(t *testing.T) {
	r := full()
	r.Texts = Texts{Prompts: []string{"a prompt </script>"}, Samples: []Text{
		sample(1, 1, 0.5, texts.Chosen, `</script><script>alert("x")</script>`),
		sample(1, 2, -0.25, texts.Rejected, "\u202eturned\x00"),
		sample(AfterTraining, 0, math.NaN(), texts.None, strings.Repeat("x", 1<<20)),
		{BeforeTraining, texts.Sample{Prompt: -1, Score: math.NaN(), Text: "no score"}},
	}}
	page := render(t, r)
	checkPage(t, page)
	p := unpack(t, page)
	if len(p.Text) != 4 || p.Mark != "cr  " || string(p.Score[0]) != "0.5" || string(p.Score[2]) != "null" ||
		string(p.Score[3]) != "null" || p.Prompt[3] != -1 || p.Rank[1] != 2 || p.Names["0"] == "" {
		t.Errorf("%+.300v", p)
	}
	if p.Text[0] != r.Texts.Samples[0].Text || strings.ContainsRune(p.Text[1], '\u202e') ||
		len(p.Text[2]) > maxText+100 {
		t.Errorf("the texts are %.100q", p.Text)
	}
	for _, want := range []string{"All samples of the rounds", "4 samples with"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(render(t, full()), "texts-data\"") {
		t.Error("a run without samples has a browser of them")
	}
	r.Texts.Samples[0].Mark = "other"
	if err := Write(filepath.Join(t.TempDir(), "r.html"), r); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("an unknown mark: %v", err)
	}
}

// made is a report with many samples, whose texts no two are alike.
func made(n, words int) Report {
	r := full()
	seed := uint64(1)
	word := func() string {
		seed = seed*6364136223846793005 + 1442695040888963407
		return fmt.Sprintf("%x", seed>>(40+seed>>62))
	}
	sentence := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(word() + " ")
		}
		return b.String()
	}
	for i := range n {
		if i%10 == 0 {
			r.Texts.Prompts = append(r.Texts.Prompts, sentence(words))
		}
		s := sample(1+i*20/n, 1+i%10, float64(i%977)/977, texts.None, sentence(words))
		s.Prompt = i / 10
		r.Texts.Samples = append(r.Texts.Samples, s)
	}
	return r
}

// Texts that are too many are next to the report; the next report that has few removes them.
func TestManyTextsAreBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	r := made(400, 50)
	if err := write(path, r, 10_000); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		return string(testfile.Read(t, path))
	}
	page, second := read(path), read(TextsFile(path))
	checkPage(t, page)
	checkPage(t, second)
	if embedded.MatchString(page) || !strings.Contains(page, `href="report-texts.html"`) ||
		len(unpack(t, second).Text) != 400 {
		t.Errorf("%d bytes in the report, %d next to it", len(page), len(second))
	}
	if err := Write(path, full()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(TextsFile(path)); err == nil {
		t.Error("the old texts are still there")
	}
}

// With POPRI_REPORT_OUT set to a folder, a report with 100 000 samples is left there, to measure how a browser takes
// it.
func TestLeaveManyTexts(t *testing.T) {
	dir := os.Getenv("POPRI_REPORT_OUT")
	if dir == "" {
		t.Skip("POPRI_REPORT_OUT is not set")
	}
	r := made(100_000, 35)
	if err := Write(filepath.Join(dir, "many.html"), r); err != nil {
		t.Fatal(err)
	}
	if err := write(filepath.Join(dir, "embedded.html"), r, 1<<30); err != nil {
		t.Fatal(err)
	}
}
