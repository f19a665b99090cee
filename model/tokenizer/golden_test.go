package tokenizer

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"popri/testkit/golden"
	"popri/testkit/testfile"
)

func TestGoldenTokenizers(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(golden.Root(t), "tokenizers", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range folders {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		kind := path.Join("tokenizers", filepath.Base(dir))
		var file struct{ Model struct{ Type string } }
		testfile.ReadJSON(t, filepath.Join(dir, FileName), &file)
		if file.Model.Type != "BPE" && file.Model.Type != "WordPiece" {
			golden.Unbuilt(t, kind)
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) { checkGolden(t, dir, kind) })
	}
}

// What the reference says of kinds that the golden data lacks; scripts/tokenizer_cases.py makes it.
func TestReferenceCases(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join("testdata", "*", FileName))
	if err != nil || len(folders) == 0 {
		t.Fatalf("testdata holds no tokenizers: %v", err)
	}
	for _, file := range folders {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) { checkGolden(t, dir, filepath.ToSlash(dir)) })
	}
}

func checkGolden(t *testing.T, dir, kind string) {
	tokenizer, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	type encoded struct {
		Kind, Text         string
		IDs                []int32
		Decoded            *string `json:"decoded"`
		DecodedSkipSpecial *string `json:"decoded_skip_special"`
	}
	cases := testfile.ReadLines[encoded](t, filepath.Join(dir, "cases.jsonl"))
	for i, c := range cases {
		at := fmt.Sprintf("line %d (%s) %.80q", i+1, c.Kind, c.Text)
		if ids := tokenizer.Encode(c.Text); !slices.Equal(ids, c.IDs) {
			t.Errorf("%s:\n got ids %v\nwant     %v", at, ids, c.IDs)
			continue
		}
		if again := tokenizer.Encode(c.Text); !slices.Equal(again, c.IDs) {
			t.Errorf("%s: a second call gives %v", at, again)
		}
		for skip, want := range map[bool]*string{false: c.Decoded, true: c.DecodedSkipSpecial} {
			if want == nil {
				want = &c.Text
			}
			checkDecode(t, at, tokenizer, c.IDs, skip, *want)
		}
	}
	golden.Checked(t, kind+"/encode", len(cases))

	type decoded struct {
		Kind               string
		IDs                []int32
		Decoded            string
		DecodedSkipSpecial string `json:"decoded_skip_special"`
	}
	decodes := testfile.ReadLines[decoded](t, filepath.Join(dir, "decode.jsonl"))
	for i, c := range decodes {
		at := fmt.Sprintf("decode line %d (%s) %v", i+1, c.Kind, c.IDs)
		checkDecode(t, at, tokenizer, c.IDs, false, c.Decoded)
		checkDecode(t, at, tokenizer, c.IDs, true, c.DecodedSkipSpecial)
	}
	golden.Checked(t, kind+"/decode", len(decodes))

	var meta struct {
		Cases       int
		DecodeCases int `json:"decode_cases"`
		VocabSize   int `json:"vocab_size"`
		Template    struct{ Prefix, Suffix []int32 }
		SpecialIDs  map[string]int32 `json:"special_ids"`
	}
	testfile.ReadJSON(t, filepath.Join(dir, "meta.json"), &meta)
	if meta.Cases != len(cases) || meta.DecodeCases != len(decodes) {
		t.Errorf("meta.json counts %d and %d cases, the files hold %d and %d", meta.Cases, meta.DecodeCases, len(cases),
			len(decodes))
	}
	if tokenizer.VocabSize() != meta.VocabSize {
		t.Errorf("vocabulary of %d, want %d", tokenizer.VocabSize(), meta.VocabSize)
	}
	prefix, suffix := tokenizer.Template()
	if !slices.Equal(prefix, meta.Template.Prefix) || !slices.Equal(suffix, meta.Template.Suffix) {
		t.Errorf("template %v … %v, want %+v", prefix, suffix, meta.Template)
	}
	for content, want := range meta.SpecialIDs {
		if id, ok := tokenizer.ID(content); !ok || id != want || !tokenizer.IsSpecial(id) ||
			tokenizer.Token(id) != content {
			t.Errorf("%q: id %d %v special %v, want %d", content, id, ok, tokenizer.IsSpecial(id), want)
		}
	}
}

func checkDecode(t *testing.T, at string, tokenizer *Tokenizer, ids []int32, skipSpecial bool, want string) {
	t.Helper()
	if got := tokenizer.Decode(ids, skipSpecial); got != want {
		t.Errorf("%s, skip special %v:\n got %q\nwant %q", at, skipSpecial, got, want)
	}
}

// The tables must say of every code point what the reference's regular expressions say.
func TestGoldenUnicodeClasses(t *testing.T) {
	var facts struct {
		Regex map[string][][2]rune
	}
	testfile.ReadJSON(t, filepath.Join(golden.Root(t), "tokenizers", "unicode.json"), &facts)
	want := make([]class, 0x110000)
	for name, c := range map[string]class{"L": letter, "N": number, "s": space} {
		for _, r := range facts.Regex[name] {
			for point := r[0]; point <= r[1]; point++ {
				want[point] = c
			}
		}
	}
	for point, c := range want {
		if got, _ := classAt(string(rune(point))); got != c {
			t.Errorf("U+%04X: class %d, want %d", point, got, c)
		}
	}
	golden.Checked(t, "tokenizers/unicode", len(want))
	// Ignoring case, the contractions match exactly the letters that fold to theirs.
	folds := func(names ...string) map[rune]bool {
		set := map[rune]bool{}
		for _, name := range names {
			ranges, ok := facts.Regex["fold_"+name]
			if !ok {
				t.Fatalf("unicode.json lacks fold_%s", name)
			}
			for _, r := range ranges {
				for point := r[0]; point <= r[1]; point++ {
					set[point] = true
				}
			}
		}
		return set
	}
	for _, place := range []struct {
		before, after string
		set           map[rune]bool
	}{
		{"'", "", folds("s", "t", "m", "d")}, {"'", "e", folds("r", "v")}, {"'", "l", folds("l")},
		{"'r", "", folds("e")}, {"'v", "", folds("e")}, {"'l", "", folds("l")},
	} {
		for point := range rune(utf8.MaxRune + 1) {
			text := place.before + string(point) + place.after
			if got := contraction(text, true) == len(text); utf8.ValidRune(point) && got != place.set[point] {
				t.Errorf("%q is a contraction: %v", text, got)
			}
		}
	}
}

// BERT's normalizer and pre-tokenizer must do with every code point what the reference's do.
func TestGoldenBertUnicode(t *testing.T) {
	var facts struct {
		Bert    map[string][][2]rune
		BertMap map[string]string `json:"bert_map"`
	}
	testfile.ReadJSON(t, filepath.Join(golden.Root(t), "tokenizers", "unicode.json"), &facts)
	has := func(class string) map[rune]bool {
		set := map[rune]bool{}
		for _, r := range facts.Bert[class] {
			for point := r[0]; point <= r[1]; point++ {
				set[point] = true
			}
		}
		if len(set) == 0 {
			t.Fatalf("unicode.json lacks %s", class)
		}
		return set
	}
	removed, space, cjk, accents, punctuation, white := has("removed"), has("to_space"), has("cjk"),
		has("accent_removed"), has("punctuation"), has("whitespace")
	cased, uncased := &bertNormalizer{cjk: true}, &bertNormalizer{cjk: true, folded: bertFolded()}
	checked := 0
	for point := range rune(utf8.MaxRune + 1) {
		if !utf8.ValidRune(point) {
			continue
		}
		checked++
		plain, folded := string(point), string(point)
		if hex, ok := facts.BertMap[fmt.Sprintf("%04X", point)]; ok {
			folded = ""
			for _, field := range strings.Fields(hex) {
				n, err := strconv.ParseUint(field, 16, 32)
				if err != nil {
					t.Fatal(err)
				}
				folded += string(rune(n))
			}
		}
		switch {
		case removed[point]:
			plain, folded = "", ""
		case space[point]:
			plain, folded = " ", " "
		case accents[point]:
			folded = ""
		case point >= hangulFirst && point <= hangulLast:
			folded = norm.NFD.String(plain)
		case cjk[point]:
			plain, folded = " "+plain+" ", " "+folded+" "
		}
		if got := cased.normalize(string(point)); got != plain {
			t.Errorf("U+%04X: cased %q, want %q", point, got, plain)
		}
		if got := uncased.normalize(string(point)); got != folded {
			t.Errorf("U+%04X: uncased %q, want %q", point, got, folded)
		}
		from, to := nextBertWord(string(point) + "a")
		want := len(string(point)) + 1
		switch {
		case removed[point]:
			continue // never reaches it
		case white[point]:
			from -= len(string(point))
		case punctuation[point]:
			want--
		}
		if from != 0 || to != want {
			t.Errorf("U+%04X: the first word is [%d, %d), want [0, %d)", point, from, to, want)
		}
	}
	golden.Checked(t, "tokenizers/unicode/bert", checked)
}
