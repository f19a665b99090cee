package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"popri/internal/fault"
	"popri/testkit/testfile"
)

// sample is text with every kind of thing that the split distinguishes.
const sample = "The quick brown fox doesn't jump; it's lazy, they'll say. We've 12345 reasons —\tnaïve ones: 日本語, " +
	"привет, 👍🏽!\n\nfunc main() {\n\tfmt.Println(\"hello, world\")   // prints  the greeting\r\n}\n" +
	"aaaa aaaaaaa abababab a_b a.b.c ... ---- the the the then there these other another mother\u00a0brother\u3000x  "

func trained(t testing.TB, size int) *Tokenizer {
	t.Helper()
	texts := strings.SplitAfter(strings.Repeat(sample, 3), "\n")
	tokenizer, err := TrainBPE(slices.Values(texts),
		TrainOptions{VocabSize: size, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

func TestRoundTrip(t *testing.T) {
	tokenizer := trained(t, 400)
	random := rand.New(rand.NewPCG(3, 4))
	texts := []string{"", sample, strings.Repeat("a", 5000), strings.Repeat(" ", 999), strings.Repeat("ab ", 999),
		"\x00"}
	for range 200 {
		var b strings.Builder
		for range random.IntN(60) {
			if random.IntN(2) == 0 {
				at := random.IntN(len(sample))
				b.WriteString(strings.ToValidUTF8(sample[at:min(at+random.IntN(9), len(sample))], ""))
			} else if r := rune(random.IntN(0x11000)); utf8.ValidRune(r) {
				b.WriteRune(r)
			}
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		checkText(t, tokenizer, text)
	}
}

// checkText checks what must hold for every text.
func checkText(t *testing.T, tokenizer *Tokenizer, text string) {
	t.Helper()
	ids := tokenizer.Encode(text)
	if got := tokenizer.Decode(ids, false); utf8.ValidString(text) && got != text {
		t.Errorf("%q came back as %q", text, got)
	}
	at := 0
	for i, id := range ids {
		if piece := tokenizer.vocab.bytes[id]; !strings.HasPrefix(text[at:], piece) {
			t.Errorf("%q: id %d at byte %d is %q", text, i, at, piece)
		}
		at = min(len(text), at+len(tokenizer.vocab.bytes[id]))
	}
	if at != len(text) {
		t.Errorf("%q: ids cover %d of %d bytes", text, at, len(text))
	}
	if again := tokenizer.Encode(text); !slices.Equal(again, ids) {
		t.Errorf("%q: %v, then %v", text, ids, again)
	}
	var words strings.Builder
	tokenizer.parts(text, func(part string, _ bool) {
		tokenizer.model.(*byteLevel).words(part, func(word string) { words.WriteString(word) })
	}, func(AddedToken) {})
	if !strings.Contains(text, "<|") && words.String() != text {
		t.Errorf("%q: words make %q", text, words.String())
	}
}

// The short and the long algorithm must do what the definition says: always the lowest rank, leftmost first.
func TestMergesFollowTheDefinition(t *testing.T) {
	m := trained(t, 420).model.(*byteLevel)
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		n := 2 + random.IntN(scanLimit-2)
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = m.byteID["the anob\xe6."[random.IntN(10)]]
		}
		want := slices.Clone(ids)
		for {
			best, rank := -1, int32(0)
			for i := range len(want) - 1 {
				if found, ok := m.merges[pairKey(want[i], want[i+1])]; ok && (best < 0 || found.rank < rank) {
					best, rank = i, found.rank
				}
			}
			if best < 0 {
				break
			}
			want[best] = m.merges[pairKey(want[best], want[best+1])].id
			want = slices.Delete(want, best+1, best+2)
		}
		scan, heap := slices.Clone(ids), slices.Clone(ids)
		if got := scan[:m.merges.byScan(scan)]; !slices.Equal(got, want) {
			t.Fatalf("scan of %v: %v, want %v", ids, got, want)
		}
		if got := heap[:m.merges.byHeap(heap)]; !slices.Equal(got, want) {
			t.Fatalf("heap of %v: %v, want %v", ids, got, want)
		}
	}
}

// The splits are the regular expressions of the reference. Go's cannot look ahead, so (?!\S) is tried by hand: the
// longest run of white space that is not followed by anything else.
func TestSplitsFollowTheExpressions(t *testing.T) {
	ascii := strings.NewReplacer(`\p{L}`, `A-Za-z`, `\p{N}`, `0-9`)
	bracketed := func(pattern string) string {
		pattern = strings.NewReplacer(`[^\s\p{L}\p{N}]`, `[^ \t\n\v\f\rA-Za-z0-9]`, `[^\r\n\p{L}\p{N}]`,
			`[^\r\nA-Za-z0-9]`).Replace(pattern)
		pattern = strings.NewReplacer(`\p{L}`, `[A-Za-z]`, `\p{N}`, `[0-9]`, `\s`, `[ \t\n\v\f\r]`).Replace(pattern)
		return ascii.Replace(pattern)
	}
	random := rand.New(rand.NewPCG(7, 8))
	for _, s := range splits {
		pattern, split := s.pattern, s.cut
		if pattern == "" {
			continue
		}
		head, _, found := strings.Cut(pattern, `|\s+(?!\S)`)
		if !found {
			t.Fatalf("%s has no look-ahead", pattern)
		}
		first := regexp.MustCompile(`^(?:` + bracketed(head) + `)`)
		blank := regexp.MustCompile(`^[ \t\n\v\f\r]+`)
		for range 20000 {
			text := make([]byte, 1+random.IntN(12))
			for i := range text {
				text[i] = "aZ09  \n\r\t.'!sTlLvVeErRdm"[random.IntN(24)]
			}
			want := len(first.Find(text))
			if want == 0 {
				want = len(blank.Find(text))
				if want < len(text) && want > 1 {
					want--
				}
			}
			if got := split(string(text)); got != want {
				t.Fatalf("%s: of %q the first %d bytes, want %d", pattern, text, got, want)
			}
		}
	}
}

func TestConcurrentEncode(t *testing.T) {
	tokenizer := trained(t, 400)
	words := strings.Fields(sample)
	want := map[string][]int32{}
	for _, w := range words {
		want[w] = tokenizer.Encode(w)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 500 {
				w := words[random.IntN(len(words))]
				if !slices.Equal(tokenizer.Encode(w), want[w]) {
					t.Errorf("%q differs", w)
				}
				tokenizer.Encode(fmt.Sprint(w, random.IntN(1<<30)))
			}
		})
	}
	wg.Wait()
}

func TestCacheForgetsAndKeepsAnswering(t *testing.T) {
	var c wordCache
	for i := range 3 * 2 * cacheShards * shardWords {
		word := fmt.Sprint(i)
		c.put(word, []int32{int32(i)})
		if ids, ok := c.get(word); !ok || ids[0] != int32(i) {
			t.Fatalf("word %d: %v %v", i, ids, ok)
		}
		if ids, ok := c.get("0"); ok && ids[0] != 0 {
			t.Fatalf("word 0: %v", ids)
		}
	}
	held := 0
	for i := range c.shards {
		held += len(c.shards[i].young) + len(c.shards[i].old)
	}
	if held > 2*cacheShards*shardWords {
		t.Errorf("%d words are held", held)
	}
	if ids, ok := c.get("0"); !ok || ids[0] != 0 {
		t.Error("a word that was always in use is forgotten")
	}
}

func TestTrainEqualsTheDefinition(t *testing.T) {
	counts := map[string]int64{}
	for _, w := range []string{"abab", "abc", "bcbc", "aaaa", "aaa", " the", " then", "abcabc", "xyz", "日本"} {
		counts[w] = int64(len(counts)%3 + 1)
	}
	pieces, pairs := learn(maps.Clone(counts), 256+40)
	// By definition: count all neighbours again before every merge.
	words := map[string][]string{}
	for w := range counts {
		words[w] = strings.Split(string(asLatin1(w)), "")
	}
	for n, pair := range pairs {
		tally := map[[2]string]int64{}
		for w, symbols := range words {
			for i := range len(symbols) - 1 {
				tally[[2]string{symbols[i], symbols[i+1]}] += counts[w]
			}
		}
		var best [2]string
		for p, c := range tally {
			if b := tally[best]; c > b || c == b && (p[0] < best[0] || p[0] == best[0] && p[1] < best[1]) {
				best = p
			}
		}
		if got := [2]string{string(asLatin1(pair[0])), string(asLatin1(pair[1]))}; got != best {
			t.Fatalf("merge %d is %q with %d, should be %q with %d", n, got, tally[got], best, tally[best])
		}
		for w, symbols := range words {
			for i := 0; i+1 < len(symbols); i++ {
				if symbols[i] == best[0] && symbols[i+1] == best[1] {
					symbols = slices.Replace(symbols, i, i+2, best[0]+best[1])
				}
			}
			words[w] = symbols
		}
	}
	if len(pairs) == 0 || len(pieces) > len(pairs) {
		t.Errorf("%d pieces of %d merges", len(pieces), len(pairs))
	}
}

// asLatin1 makes every byte one character in the order of the bytes.
func asLatin1(s string) []rune {
	var out []rune
	for i := range len(s) {
		out = append(out, rune(s[i]))
	}
	return out
}

func TestTrainIsTheSameForAnyOrderOfTexts(t *testing.T) {
	texts := strings.SplitAfter(strings.Repeat(sample, 2), " ")
	// Texts are cut at blanks, so the cut must not change the words: the blank stays with its own text.
	opt := TrainOptions{VocabSize: 380, SpecialTokens: []string{"<|endoftext|>", "<pad>"}}
	first, err := TrainBPE(slices.Values(texts), opt)
	if err != nil {
		t.Fatal(err)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	second, err := TrainBPE(slices.Values(texts), opt)
	if err != nil {
		t.Fatal(err)
	}
	if string(first.JSON()) != string(second.JSON()) {
		t.Error("the order of the texts changes the tokenizer")
	}
	if first.VocabSize() != opt.VocabSize {
		t.Errorf("vocabulary of %d", first.VocabSize())
	}
	if id, ok := first.EOS(); !ok || id != int32(opt.VocabSize-2) {
		t.Errorf("end of text is %d", id)
	}
}

func TestTrainDoesNotLearnSpecialTokens(t *testing.T) {
	texts := slices.Values([]string{strings.Repeat("<|endoftext|>ab", 100)})
	tokenizer, err := TrainBPE(texts, TrainOptions{VocabSize: 300, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	if tokenizer.VocabSize() != 258 {
		t.Errorf("vocabulary of %d, want the bytes, \"ab\" and the special token", tokenizer.VocabSize())
	}
	if ids := tokenizer.Encode("ab<|endoftext|>ab"); !slices.Equal(ids, []int32{256, 257, 256}) {
		t.Errorf("ids %v", ids)
	}
}

func TestTrainRefuses(t *testing.T) {
	for _, opt := range []TrainOptions{
		{VocabSize: 255}, {VocabSize: 256, SpecialTokens: []string{"<s>"}}, {VocabSize: 1 << 30},
		{VocabSize: 300, SpecialTokens: []string{""}}, {VocabSize: 300, SpecialTokens: []string{"<s>", "<s>"}},
		{VocabSize: 300, SpecialTokens: []string{"a"}},
	} {
		if _, err := TrainBPE(slices.Values([]string{"abc"}), opt); err == nil {
			t.Errorf("%+v: accepted", opt)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	tokenizer := trained(t, 350)
	dir := t.TempDir()
	if err := tokenizer.Save(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, FileName)} {
		loaded, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(loaded.Encode(sample), tokenizer.Encode(sample)) {
			t.Error("loaded, it gives other ids")
		}
	}
	other := t.TempDir() // as OPT's folders are
	testfile.Write(t, filepath.Join(other, "vocab.json"), "{}")
	if _, err := Load(other); err == nil || !strings.Contains(err.Error(), "the folder has vocab.json only") {
		t.Errorf("a folder without tokenizer.json: %v", err)
	}
	config := filepath.Join(dir, configName)
	for content, ok := range map[string]bool{
		`{"eos_token":"Ġthe"}`: true, `{"eos_token":{"content":"Ġthe"},"bos_token":null}`: true,
		`{"eos_token":"<none>"}`: false, `{"eos_token":3}`: false, `[`: false,
	} {
		testfile.Write(t, config, content)
		loaded, err := Load(dir)
		if (err == nil) != ok {
			t.Errorf("%s: %v", content, err)
		}
		if err == nil {
			if id, found := loaded.EOS(); !found || loaded.Token(id) != "Ġthe" {
				t.Errorf("%s: end of text %d", content, id)
			}
		} else if !strings.Contains(err.Error(), config) {
			t.Errorf("%v does not name %s", err, config)
		}
	}
}

// change applies an edit to a good tokenizer.json.
func change(t testing.TB, edit func(file map[string]any)) []byte {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(trained(t, 290).JSON(), &file); err != nil {
		t.Fatal(err)
	}
	edit(file)
	content, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestLoadRefuses(t *testing.T) {
	type object = map[string]any
	model := func(f object) object { return f["model"].(object) }
	vocab := func(f object) object { return model(f)["vocab"].(object) }
	added := func(f object) object { return f["added_tokens"].([]any)[0].(object) }
	for _, c := range []struct {
		name string
		edit func(object)
		want []string
	}{
		{"unknown section", func(f object) { f["extra"] = 1 }, []string{"extra"}},
		{"version", func(f object) { f["version"] = "2.0" }, []string{"2.0"}},
		{"normalizer", func(f object) { f["normalizer"] = object{"type": "NFKC"} }, []string{"normalizer", "NFKC"}},
		{"model type", func(f object) { model(f)["type"] = "WordLevel" }, []string{"WordLevel"}},
		{"no model", func(f object) { delete(f, "model") }, []string{"model"}},
		{"unknown setting", func(f object) { model(f)["speed"] = 1 }, []string{"speed"}},
		{"dropout", func(f object) { model(f)["dropout"] = 0.1 }, []string{"dropout", "0.1"}},
		{"byte fallback without blanks", func(f object) { model(f)["byte_fallback"] = true; f["pre_tokenizer"] = nil },
			[]string{"byte_fallback"}},
		{"byte fallback with a byte-level split", func(f object) { model(f)["byte_fallback"] = true },
			[]string{"pre_tokenizer", "ByteLevel"}},
		{"suffix", func(f object) { model(f)["end_of_word_suffix"] = "</w>" }, []string{"</w>"}},
		{"prefix", func(f object) { model(f)["continuing_subword_prefix"] = "##" }, []string{"##"}},
		{"no vocabulary", func(f object) { delete(model(f), "vocab") }, []string{"vocab"}},
		{"vocabulary is a list", func(f object) { model(f)["vocab"] = []any{} }, []string{"vocab"}},
		{"missing byte and unknown token", func(f object) { delete(vocab(f), "ÿ"); model(f)["unk_token"] = "<unk>" },
			[]string{"unk_token", "<unk>"}},
		{"unknown token in a merge", func(f object) {
			delete(vocab(f), "ÿ")
			model(f)["unk_token"] = model(f)["merges"].([]any)[0].([]any)[0]
		}, []string{"unk_token", "line 1"}},
		{"id twice", func(f object) { vocab(f)["x"] = vocab(f)["y"] }, []string{`"x"`, `"y"`}},
		{"negative id", func(f object) { vocab(f)["x"] = -1 }, []string{`"x"`, "-1"}},
		{"huge id", func(f object) { vocab(f)["x"] = 1e9 }, []string{`"x"`}},
		{"fractional id", func(f object) { vocab(f)["x"] = 1.5 }, []string{`"x"`, "1.5"}},
		{"text as id", func(f object) { vocab(f)["x"] = "1" }, []string{`"x"`}},
		{"merge of an unknown piece",
			func(f object) { model(f)["merges"] = []any{model(f)["merges"].([]any)[0], "qqq t"} }, []string{"line 2",
				`"qqq"`}},
		{"merge into an unknown piece", func(f object) { model(f)["merges"] = []any{[]any{"x", "x"}} },
			[]string{"line 1", `"xx"`}},
		{"merge of three", func(f object) { model(f)["merges"] = []any{"t h e"} }, []string{"line 1"}},
		{"merge of one", func(f object) { model(f)["merges"] = []any{[]any{"t"}} }, []string{"line 1"}},
		{"merge of numbers", func(f object) { model(f)["merges"] = []any{[]any{1, 2}} }, []string{"line 1"}},
		{"merge twice", func(f object) {
			model(f)["merges"] = append(model(f)["merges"].([]any),
				model(f)["merges"].([]any)[0])
		}, []string{"line 1 already"}},
		{"merge missing", func(f object) { model(f)["merges"] = model(f)["merges"].([]any)[1:] },
			[]string{"no line makes", "a merge is missing"}},
		{"no pre-tokenizer", func(f object) { f["pre_tokenizer"] = nil }, []string{"pre_tokenizer"}},
		{"pre-tokenizer", func(f object) { f["pre_tokenizer"] = object{"type": "Metaspace"} },
			[]string{"pre_tokenizer", "Metaspace"}},
		{"prefix space after digits", func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence",
				"pretokenizers": []any{object{"type": "Digits", "individual_digits": true},
					object{"type": "ByteLevel", "add_prefix_space": true}}}
		}, []string{"add_prefix_space"}},
		{"no split", func(f object) { f["pre_tokenizer"].(object)["use_regex"] = false }, []string{"use_regex"}},
		{"unknown split", func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{
				object{"type": "Split", "pattern": object{"Regex": `\w+`}, "behavior": "Isolated", "invert": false},
				object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}}}
		}, []string{`\\w+`}},
		{"runs of digits first", func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence",
				"pretokenizers": []any{object{"type": "Digits", "individual_digits": false},
					object{"type": "ByteLevel"}}}
		}, []string{"Digits"}},
		{"digits and no split", func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence",
				"pretokenizers": []any{object{"type": "Digits", "individual_digits": true},
					object{"type": "Metaspace"}}}
		}, []string{"Metaspace"}},
		{"decoder", func(f object) { f["decoder"] = object{"type": "WordPiece"} }, []string{"decoder", "WordPiece"}},
		{"post-processor", func(f object) { f["post_processor"] = object{"type": "PhonyProcessing"} },
			[]string{"post_processor", "PhonyProcessing"}},
		{"post-processor without tokens", func(f object) { f["post_processor"] = object{"type": "RobertaProcessing"} },
			[]string{"post_processor", "RobertaProcessing", "cls"}},
		{"post-processor with an unknown token", func(f object) {
			f["post_processor"] = object{"type": "BertProcessing", "cls": []any{"<s>", 9999}, "sep": []any{"</s>", 1}}
		}, []string{"BertProcessing", "9999"}},
		{"template of an unknown token", func(f object) {
			f["post_processor"] = object{"type": "TemplateProcessing",
				"single": []any{object{"SpecialToken": object{"id": "<s>", "type_id": 0}}}}
		}, []string{"<s>"}},
		{"template without text",
			func(f object) { f["post_processor"] = object{"type": "TemplateProcessing", "single": []any{}} },
			[]string{"0 times"}},
		{"added token of one word", func(f object) { added(f)["single_word"] = true },
			[]string{"<|endoftext|>", "single_word"}},
		{"added token empty", func(f object) { added(f)["content"] = "" }, []string{"empty"}},
		{"added token twice", func(f object) { f["added_tokens"] = append(f["added_tokens"].([]any), added(f)) },
			[]string{"twice"}},
		{"added token's id differs", func(f object) { added(f)["id"] = 999 }, []string{"999"}},
		{"added token's id is taken", func(f object) { added(f)["content"] = "<new>" }, []string{"<new>"}},
	} {
		path := testfile.Write(t, filepath.Join(t.TempDir(), FileName), change(t, c.edit))
		_, err := Load(path)
		if !fault.IsUser(err) {
			t.Errorf("%s: error %v", c.name, err)
			continue
		}
		for _, want := range append(c.want, path) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.name, err, want)
			}
		}
	}
	for content, want := range map[string]string{
		"": "JSON", "[]": "JSON", "{} {}": "JSON", "{\"version\":\"\xff\"}": "UTF-8",
		`{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}}`: `"a" stands twice`,
	} {
		if _, err := Parse([]byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty folder: %v", err)
	}
}

// visit calls change with a setter for every value and every name in a JSON document but for long tables.
func visit(v any, set func(any), change func(set func(any), rename func(string))) {
	switch v := v.(type) {
	case map[string]any:
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i >= 20 {
				break
			}
			value := v[key]
			change(func(x any) { v[key] = x }, func(name string) {
				if name == "" {
					delete(v, strings.Repeat("x", 5000))
					return
				}
				delete(v, key)
				v[name] = value
			})
			v[key] = value
			visit(value, func(x any) { v[key] = x }, change)
		}
	case []any:
		for i := range v[:min(len(v), 3)] {
			value := v[i]
			change(func(x any) { v[i] = x }, nil)
			v[i] = value
			visit(value, func(x any) { v[i] = x }, change)
		}
	}
}

// Whatever in the file is long, an error stays readable.
func TestLongValuesAreCut(t *testing.T) {
	long, number := strings.Repeat("x", 5000), json.Number(strings.Repeat("9", 5000))
	var file any
	if err := json.Unmarshal(trained(t, 270).JSON(), &file); err != nil {
		t.Fatal(err)
	}
	refused := 0
	try := func() {
		content, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(content); err != nil {
			if refused++; len(err.Error()) > 600 {
				t.Errorf("an error of %d bytes: %.300s…", len(err.Error()), err)
			}
		}
	}
	visit(file, nil, func(set func(any), rename func(string)) {
		for _, value := range []any{long, number, []any{long}, map[string]any{long: long},
			map[string]any{"type": long}} {
			set(value)
			try()
		}
		if rename != nil {
			rename(long)
			try()
			rename("")
		}
	})
	if refused < 100 {
		t.Errorf("only %d files are refused", refused)
	}
}

// An editor's byte-order mark does not matter, and stays when the file is saved.
func TestByteOrderMark(t *testing.T) {
	tok, dir := trained(t, 258), t.TempDir()
	content := append([]byte("\ufeff"), tok.JSON()...)
	for name, content := range map[string][]byte{FileName: content,
		configName: []byte("\ufeff{\"eos_token\": \"<|endoftext|>\"}")} {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	marked, err := Load(dir)
	if err != nil || string(marked.JSON()) != string(content) ||
		!slices.Equal(marked.Encode(sample), tok.Encode(sample)) {
		t.Errorf("with a byte-order mark: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(trained(f, 258).JSON())
	f.Add([]byte(`{"version":"1.0","model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}}`))
	f.Add([]byte(`{"version":"1.0","added_tokens":[{"id":3,"content":"<s>"}],"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"model":{}}`))
	for _, kind := range []string{"byte-fallback", "metaspace-first", "bert-uncased", "qwen-nfc", "unigram-t5",
		"unigram-xlmr", "unigram-bytes"} {
		content := testfile.Read(f, filepath.Join("testdata", kind, FileName))
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		tokenizer, err := Parse(content)
		if err != nil {
			return
		}
		for id := range int32(tokenizer.VocabSize()) {
			tokenizer.Decode([]int32{id}, false)
		}
		tokenizer.Encode(sample)
	})
}

// A text that is decoded in two parts is the text decoded at once.
func TestDecodeAfter(t *testing.T) {
	for kind, want := range map[string]string{"byte-fallback": "Once upon a time",
		"metaspace-first": "Once upon a time", "qwen-nfc": "Once upon a time", "bert-uncased": "the up the"} {
		tokenizer, err := Load(filepath.Join("testdata", kind))
		if err != nil {
			t.Fatal(err)
		}
		ids := tokenizer.Encode(want)
		for cut := range ids {
			if bos, ok := tokenizer.BOS(); ok && cut == 0 {
				if got := tokenizer.DecodeAfter([]int32{bos}, ids, true); got != want {
					t.Errorf("%s, after the beginning of a text: %q, want %q", kind, got, want)
				}
			}
			if got := tokenizer.Decode(ids[:cut], true) + tokenizer.DecodeAfter(ids[:cut], ids[cut:],
				true); got != want {
				t.Errorf("%s, cut at %d: %q, want %q", kind, cut, got, want)
			}
		}
	}
}

// For every kind: ids with and without offsets agree, ranges are in the text and advance, decoding streams, and the
// result is UTF-8.
func FuzzKinds(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", FileName))
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	var all []*Tokenizer
	for _, file := range files {
		tokenizer, err := Load(file)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, tokenizer)
	}
	f.Add(sample)
	f.Add("")
	f.Add("\xff\xf0\x9f\x91 <s> ▁ é e\u0301 Once[CLS]한")
	f.Add(" \u1112\u1161\u11ab\u0344\x80▁▁ ")
	f.Fuzz(func(t *testing.T, text string) {
		for i, tokenizer := range all {
			ids := tokenizer.Encode(text)
			if again := tokenizer.Encode(text); !slices.Equal(again, ids) {
				t.Errorf("%s: %q: %v, then %v", files[i], text, ids, again)
			}
			decoded := tokenizer.Decode(ids, false)
			if !utf8.ValidString(decoded) {
				t.Errorf("%s: %q decoded to %q, which is not UTF-8", files[i], text, decoded)
			}
			checkDecode(t, text, tokenizer, ids, false, decoded)
		}
	})
}

func FuzzEncodeDecode(f *testing.F) {
	tokenizer := trained(f, 400)
	f.Add(sample)
	f.Add("")
	f.Add("\xff\xf0\x9f\x91 <|endoftext|> é")
	f.Add(strings.Repeat("na", 100) + "'s\u3000\n x")
	f.Fuzz(func(t *testing.T, text string) {
		checkText(t, tokenizer, text)
		ids := make([]int32, len(text))
		for i := range ids {
			ids[i] = int32(text[i]) * 2
		}
		checkDecode(t, text, tokenizer, ids, true, tokenizer.Decode(ids, true))
		if decoded := tokenizer.Decode(ids, false); !utf8.ValidString(decoded) {
			t.Errorf("decoded %q is not UTF-8", decoded)
		}
	})
}

// goSource returns comments of the Go library's source, about n bytes.
func goSource(b *testing.B, n int) []string {
	var texts []string
	size := 0
	err := filepath.WalkDir(filepath.Join(build.Default.GOROOT, "src"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil
			}
			for _, group := range file.Comments {
				if text := group.Text(); len(text) > 80 {
					texts = append(texts, text)
					size += len(text)
				}
			}
			if size > n {
				return fs.SkipAll
			}
			return nil
		})
	if err != nil {
		b.Fatal(err)
	}
	return texts
}

func BenchmarkTrain(b *testing.B) {
	texts := goSource(b, 16<<20)
	for b.Loop() {
		tokenizer, err := TrainBPE(slices.Values(texts),
			TrainOptions{VocabSize: 4096, SpecialTokens: []string{"<|endoftext|>"}})
		if err != nil {
			b.Fatal(err)
		}
		bytes := 0
		for _, text := range texts {
			bytes += len(text)
		}
		b.SetBytes(int64(bytes))
		if tokenizer.VocabSize() != 4096 {
			b.Fatal(tokenizer.VocabSize())
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	texts := goSource(b, 4<<20)
	tokenizer, err := TrainBPE(slices.Values(texts), TrainOptions{VocabSize: 4096})
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{"text": strings.Join(texts, "\n"),
		"one-long-word": strings.Repeat("abcdefghij", 10000)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tokenizer.Encode(text)
			}
		})
	}
}

func ExampleTokenizer_Encode() {
	texts := slices.Values([]string{"low lower lowest", "new newer newest"})
	tokenizer, err := TrainBPE(texts, TrainOptions{VocabSize: 265, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range tokenizer.Encode("lowest<|endoftext|>") {
		fmt.Printf("%d %q\n", id, tokenizer.Token(id))
	}
	// Output:
	// 257 "lo"
	// 256 "we"
	// 263 "st"
	// 264 "<|endoftext|>"
}
