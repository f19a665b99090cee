package dpo

import (
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/internal/atomicfile"
	"popri/internal/parquetio"
	"popri/testkit/testfile"
)

func writeParquet[T any](t testing.TB, path string, rows []T) {
	t.Helper()
	if err := atomicfile.Write(path, func(w io.Writer) error { return parquetio.Write(w, rows, nil) }); err != nil {
		t.Fatal(err)
	}
}

type textRow struct {
	Prompt   string  `parquet:"prompt"`
	Chosen   *string `parquet:"chosen,optional"`
	Rejected string  `parquet:"rejected"`
	Score    float64 `parquet:"score"`
}

type message struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
}

func TestReadParquet(t *testing.T) {
	tok := lineTokenizer(t)
	path := filepath.Join(t.TempDir(), "pairs.parquet")
	writeParquet(t, path, []textRow{{"the", new(" cat"), " hat", 1}, {"", new(""), "é", 2}})
	options := ReadOptions{Tokenizer: tok, MaxLength: 30}
	got, _, err := Read(path, options)
	if err != nil {
		t.Fatal(err)
	}
	lines := filepath.Join(t.TempDir(), "pairs.jsonl")
	testfile.Write(t, lines, `{"prompt": "the", "chosen": " cat", "rejected": " hat"}`+"\n"+
		`{"prompt": "", "chosen": "", "rejected": "é"}`)
	if want, _, err := Read(lines, options); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v, JSON lines give %+v", err, got, want)
	}
	own := []Pair{{Prompt: []int32{1}, Chosen: []int32{2, 3}, Rejected: []int32{4}, PromptText: "a", ChosenText: "b",
		RejectedText: "c", PromptIndex: 5, ChosenIndex: 6, RejectedIndex: 7,
		ChosenScore: 0.5, RejectedScore: -0.25, RejectedRank: 3, Round: 2}}
	if err := WritePairs(path, own); err != nil {
		t.Fatal(err)
	}
	if got, _, err := Read(path, options); err != nil || !reflect.DeepEqual(got, own) {
		t.Errorf("%v: %+v, want %+v", err, got, own)
	}

	long := strings.Repeat("the cat ", 40)
	for want, write := range map[string]func(){
		"row 2: chosen is null": func() {
			writeParquet(t, path,
				[]textRow{{"a", new("b"), "c", 0}, {"a", nil, "c", 0}})
		},
		"row 2: rejected is not UTF-8": func() {
			writeParquet(t, path,
				[]textRow{{"a", new("b"), "c", 0}, {"a", new("b"), "\xff", 0}})
		},
		"row 1: chosen and rejected are the same": func() { writeParquet(t, path, []textRow{{"a", new("b"), "b", 0}}) },
		"of 1 pairs, none is left": func() {
			writeParquet(t, path,
				[]textRow{{long, new("b"), "c", 0}})
		},
		"no pairs": func() { writeParquet(t, path, []textRow{}) },
		"column rejected is missing": func() {
			writeParquet(t, path, []struct {
				Prompt string `parquet:"prompt"`
				Chosen string `parquet:"chosen"`
			}{{"a", "b"}})
		},
		"not a Parquet file": func() {
			testfile.Write(t, path, "{\"prompt\": \"a\"}")
		},
	} {
		write()
		if _, _, err := Read(path, options); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// Conversations in Parquet are read as those in JSON lines, with a prompt of their own and beside one that is text.
func TestParquetConversations(t *testing.T) {
	type explicit struct {
		Prompt   []message `parquet:"prompt,list"`
		Chosen   []message `parquet:"chosen,list"`
		Rejected []message `parquet:"rejected,list"`
	}
	type beside struct {
		Prompt   string    `parquet:"prompt"`
		Chosen   []message `parquet:"chosen,list"`
		Rejected []message `parquet:"rejected,list"`
		Score    float64   `parquet:"score_chosen"`
	}
	turns := func(texts ...string) (list []message) {
		for i, text := range texts {
			list = append(list, message{[]string{"user", "assistant"}[i%2], text})
		}
		return list
	}
	dir := t.TempDir()
	first, second, lines := filepath.Join(dir, "a.parquet"), filepath.Join(dir, "b.parquet"), filepath.Join(dir,
		"c.jsonl")
	writeParquet(t, first, []explicit{{turns("the"), turns("the", "cat")[1:], turns("the", "hat")[1:]}})
	writeParquet(t, second, []beside{{"the", turns("the", "cat"), turns("the", "hat"), 1},
		{"a", turns("a", "b", "c", "d"), turns("a", "b", "c", "e", "f"), 2}})
	content := `{"chosen": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "cat"}], "rejected": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "hat"}]}
		{"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}],
		"rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "e"}, {"role": "user", "content": "f"}]}`
	testfile.Write(t, lines, strings.ReplaceAll(content, ",\n\t\t", ", "))
	options := ReadOptions{Tokenizer: lineTokenizer(t), Folder: chatFolder(t, "chatml", "tokenizers/gpt2-512"),
		MaxLength: 1000}
	want, _, err := Read(lines, options)
	if err != nil || len(want) != 2 {
		t.Fatalf("%v: %d pairs", err, len(want))
	}
	if got, _, err := Read(second, options); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v, JSON lines give %+v", err, got, want)
	}
	if got, _, err := Read(first, options); err != nil || !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("%v: %+v, JSON lines give %+v", err, got, want)
	}
	options.Folder = t.TempDir()
	if _, _, err := Read(first, options); err == nil ||
		!strings.Contains(err.Error(), "a.parquet: row 1: the pairs are conversations") {
		t.Error(err)
	}
	type called struct {
		Role    string   `parquet:"role"`
		Content string   `parquet:"content"`
		Calls   []string `parquet:"tool_calls,list"`
		Reason  *string  `parquet:"reasoning_content,optional"`
	}
	type calls struct {
		Chosen   []called `parquet:"chosen,list"`
		Rejected []called `parquet:"rejected,list"`
	}
	said := []called{{Role: "user", Content: "the"}, {Role: "assistant", Content: "cat"}}
	other := []called{said[0], {Role: "assistant", Content: "hat"}}
	options.Folder = chatFolder(t, "chatml", "tokenizers/gpt2-512")
	writeParquet(t, second, []calls{{said, other}})
	if got, _, err := Read(second, options); err != nil || !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("with fields that are all null: %v, %+v", err, got)
	}
	for field, turn := range map[string]called{"reasoning_content": {Role: "assistant", Content: "hat", Reason: new("so")},
		"tool_calls": {Role: "assistant", Content: "hat", Calls: []string{"f"}}} {
		writeParquet(t, second, []calls{{said, []called{said[0], turn}}})
		if _, _, err := Read(second, options); err == nil || !strings.Contains(err.Error(), "column rejected have the field "+field) {
			t.Errorf("a message with %s: %v", field, err)
		}
	}
	writeParquet(t, first, []explicit{{turns("the"), turns("cat"), nil}})
	if _, _, err := Read(first, options); err == nil ||
		!strings.Contains(err.Error(), "a.parquet: row 1: rejected is a list of 0 roles") {
		t.Error(err)
	}
}

// A run's own form is bounded as well: a dictionary of few large texts that many rows refer to is refused.
func TestPairsBomb(t *testing.T) {
	type row struct {
		Prompt   string  `parquet:"prompt,dict"`
		Prompts  []int32 `parquet:"prompt_ids,dict"`
		Chosen   []int32 `parquet:"chosen_ids,dict"`
		Rejected []int32 `parquet:"rejected_ids,dict"`
	}
	large := [2]string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)}
	rows := make([]row, 600)
	for i := range rows {
		rows[i] = row{large[i%2], []int32{1}, []int32{2}, []int32{3}}
	}
	path := filepath.Join(t.TempDir(), "pairs.parquet")
	writeParquet(t, path, rows)
	if _, _, err := Read(path, ReadOptions{Tokenizer: lineTokenizer(t), MaxLength: 30}); err == nil ||
		!strings.Contains(err.Error(), "column prompt, after") || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a bomb: %v", err)
	}
}

func FuzzParquetPairs(f *testing.F) {
	tok := lineTokenizer(f)
	path := filepath.Join(f.TempDir(), "seed.parquet")
	seed := func() {
		b := testfile.Read(f, path)
		f.Add(b)
	}
	writeParquet(f, path, []textRow{{"the", new(" cat"), " hat", 1}})
	seed()
	if err := WritePairs(path, []Pair{{Prompt: []int32{1}, Chosen: []int32{2}, Rejected: []int32{3}}}); err != nil {
		f.Fatal(err)
	}
	seed()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := testfile.Write(t, filepath.Join(t.TempDir(), "pairs.parquet"), content)
		pairs, _, err := Read(path, ReadOptions{Tokenizer: tok, MaxLength: 50})
		if err == nil && len(pairs) == 0 {
			t.Fatal("no pairs and no error")
		}
		for _, p := range pairs {
			if err == nil && (len(p.Prompt) == 0 || len(p.Chosen) == 0 || len(p.Rejected) == 0) {
				t.Fatalf("%+v", p)
			}
		}
	})
}
