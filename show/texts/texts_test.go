package texts

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/testkit/testfile"
)

func write[T any](t *testing.T, run string, round int, name string, content []T) {
	t.Helper()
	dir := rundir.Round(run, round)
	testfile.Folder(t, dir)
	if err := rows.Write(filepath.Join(dir, name), content); err != nil {
		t.Fatal(err)
	}
}

// A round is read at each of its stages: samples alone, with scores, with pairs.
func TestReadGrowsWithTheRound(t *testing.T) {
	run := t.TempDir()
	if _, err := Read(run, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a round that has not begun: %v", err)
	}
	write(t, run, 1, rundir.Samples, []sampleRow{{0, 0, "a"}, {0, 1, "b"}, {0, 2, "c"}, {2, 0, "d"}})
	r, err := Read(run, 1)
	if err != nil || len(r.Samples) != 4 || !math.IsNaN(r.Samples[0].Score) || r.Samples[0].Rank != 0 ||
		len(r.Prompts) != 3 {
		t.Fatalf("%+v (%v)", r, err)
	}
	write(t, run, 1, rundir.Prompts, []promptRow{{0, "first"}, {2, "third"}})
	write(t, run, 1, rundir.Scores, []scoreRow{{0, 0, 0.5}, {0, 1, 2}, {0, 2, -1}, {2, 0, 7}, {9, 9, 1}})
	write(t, run, 1, rundir.Pairs, []pairRow{{0, 1, 2}, {0, 0, 2}, {0, 2, 0}, {9, 9, 9}})
	if r, err = Read(run, 1); err != nil {
		t.Fatal(err)
	}
	for i, want := range []Sample{{0, "a", 0.5, 2, Both}, {0, "b", 2, 1, Chosen}, {0, "c", -1, 3, Both},
		{2, "d", 7, 1, None}} {
		if r.Samples[i] != want {
			t.Errorf("sample %d is %+v, want %+v", i, r.Samples[i], want)
		}
	}
	if r.Prompts[0] != "first" || r.Prompts[1] != "" || r.Prompts[2] != "third" {
		t.Errorf("prompts are %q", r.Prompts)
	}
}

func TestOtherMethodsFiles(t *testing.T) {
	run := t.TempDir()
	write(t, run, 1, rundir.Samples, []sampleRow{{0, 0, "a"}, {0, 1, "b"}})
	write(t, run, 1, rundir.Chosen, []scoreRow{{0, 1, 3}})
	// The public texts that a release selects are no votes.
	write(t, run, 1, rundir.Selection, []struct {
		Text   string  `parquet:"text"`
		Copies int64   `parquet:"copies"`
		Score  float64 `parquet:"score"`
	}{{"public", 3, 1}})
	if r, err := Read(run, 1); err != nil || r.Samples[1].Mark != Chosen || r.Samples[0].Mark != None ||
		!math.IsNaN(r.Samples[0].Score) {
		t.Errorf("%+v (%v)", r, err)
	}
	type member struct {
		Sample int64   `parquet:"sample_index"`
		Text   string  `parquet:"text"`
		Votes  float64 `parquet:"votes"`
		Copies int64   `parquet:"copies"`
	}
	write(t, run, 2, rundir.Samples, []member{{0, "a", 0, 0}, {1, "b", 0, 0}})
	write(t, run, 2, rundir.Selection, []member{{0, "a", 1.5, 0}, {1, "b", 4, 2}})
	r, err := Read(run, 2)
	if err != nil || r.Samples[1] != (Sample{-1, "b", 4, 1, Chosen}) ||
		r.Samples[0] != (Sample{-1, "a", 1.5, 2, None}) {
		t.Errorf("%+v (%v)", r, err)
	}
}

func TestDamagedFiles(t *testing.T) {
	run := t.TempDir()
	write(t, run, 1, rundir.Samples, []sampleRow{{-1, 0, "a"}})
	if _, err := Read(run, 1); err == nil || !strings.Contains(err.Error(), "prompt_index") {
		t.Errorf("the error is %v", err)
	}
	write(t, run, 1, rundir.Samples, []sampleRow{{1 << 40, 0, "a"}})
	if _, err := Read(run, 1); err == nil || !strings.Contains(err.Error(), "prompt_index") {
		t.Errorf("the error is %v", err)
	}
	for _, name := range []string{rundir.Samples, rundir.Scores, rundir.Selection} {
		write(t, run, 1, rundir.Samples, []sampleRow{{0, 0, "a"}})
		path := testfile.Write(t, filepath.Join(rundir.Round(run, 1), name), "PAR1 nonsense PAR1")
		if _, err := Read(run, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
		os.Remove(path)
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nc": "a\tb\nc", "<script>": "<script>", "a\u202eb\x00": "a⟨U+202E⟩b⟨U+0000⟩", "\xff": "\ufffd",
		"1234567890": "12345678… (2 more characters)", "12345678": "12345678", "\u2067x": "⟨U+2067⟩x", "\r": "⟨U+000D⟩",
	} {
		if got := Visible(text, 8); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if long := strings.Repeat("x", 1<<20); len(Visible(long, 600)) > 700 || Visible(long, 0) != long {
		t.Error("a long text is not cut, or is cut without a limit")
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\u202e\xff", 3)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if got := Visible(text, limit); !utf8.ValidString(got) || strings.ContainsAny(got, "\u202e\x00\u2066") {
			t.Errorf("%q became %q", text, got)
		}
	})
}
