package run

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/run/judging"
	"popri/run/reporting"
	"popri/show/datacard"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestJudging: a run's product is judged against its clients. Page and figures are in a folder of their own, which what
// is published leaves out. Texts that no run made are judged, too.
func TestJudging(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir, Shortened: "1 round instead of 9"})
	if page, err := reporting.Of(dir); err != nil || !strings.HasSuffix(page.Subtitle, "; shortened: 1 round instead of 9") {
		t.Errorf("the report of a shortened run: %q, %v", page.Subtitle, err)
	}
	// A process that was killed as it wrote the figures, which have no noise, left a part of them.
	left := filepath.Join(dir, judging.Folder, atomicfile.TempName(judging.Figures, 999999999, 1))
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, page, err := judging.Judge(t.Context(), judging.Options{Run: dir})
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Membership); n != 3 || r.Membership[2].Name != judging.TunedModel ||
		!(r.Membership[2].AUC > 0 && r.Membership[2].AUC < 1) {
		t.Errorf("attacks %+v", r.Membership)
	}
	// The noise comes from the seed, so the run states no ε.
	if r.Epsilon != 0 || len(r.Likeness) != 3 || len(r.Memory.Found) > 0 {
		t.Errorf("%+v", r)
	}
	html := testfile.Read(t, page)
	for _, want := range []string{"For the owner of the data alone", "Repeats nobody that could be found", "MAUVE"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	out := filepath.Join(t.TempDir(), "published")
	if _, err := datacard.Write(dir, out, datacard.Options{Name: "judged", Unprotected: true}); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(out, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, judging.Folder) || strings.Contains(path, judging.Figures) ||
			strings.Contains(path, judging.Page) {
			t.Errorf("published: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	var texts strings.Builder
	product := append([]string{"one two three four"}, written(t, dir)...)
	for _, text := range product {
		line, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		texts.Write(append(line, '\n'))
	}
	file := testfile.Write(t, filepath.Join(t.TempDir(), "texts.jsonl"), texts.String())
	canaries := testfile.Write(t, filepath.Join(t.TempDir(), "canaries.txt"), "Two three four\n\nnever said\n")
	r, _, err = judging.Judge(t.Context(),
		judging.Options{Product: file, Config: c, Canaries: canaries, Out: filepath.Join(t.TempDir(), "judged")})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Canaries) != 2 || r.Canaries[0].Run != 3 || r.Canaries[1].Run != 0 || r.Epsilon != 0 {
		t.Errorf("canaries %+v", r.Canaries)
	}
	for _, o := range []judging.Options{{Run: t.TempDir()}, {Product: "none.parquet", Config: c, Out: t.TempDir()},
		{Product: file, Config: c, Out: t.TempDir(), Names: "none.txt"}} {
		if _, _, err := judging.Judge(t.Context(), o); !fault.IsUser(err) {
			t.Errorf("%+v: %v, want an error of the user's", o, err)
		}
	}
}

// written are the texts of a run's product.
func written(t *testing.T, dir string) (texts []string) {
	t.Helper()
	product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
	for _, r := range product {
		if r.Text != "" {
			texts = append(texts, r.Text)
		}
	}
	return texts
}
