package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// lacking returns the tokenizer.json of a byte-level vocabulary that has few single bytes, as SmolLM2's lacks 21 of
// them.
func lacking(unknown string, fuse, ignoreMerges bool) []byte {
	vocab := map[string]int{"a": 0, "b": 1, "c": 2, "ab": 3, "Ġ": 4, "bc": 5, "Ã": 6}
	model := map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "fuse_unk": fuse, "byte_fallback": false,
		"ignore_merges": ignoreMerges, "vocab": vocab, "merges": [][2]string{{"a", "b"}, {"b", "c"}}}
	if unknown != "" {
		model["unk_token"], vocab[unknown] = unknown, 7
	}
	for c := 'd'; c <= 'z'; c++ {
		vocab[string(c)] = len(vocab) + 1
	}
	step := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	content, err := json.Marshal(map[string]any{"version": "1.0", "truncation": nil, "padding": nil,
		"added_tokens": []any{}, "normalizer": nil, "pre_tokenizer": step, "post_processor": nil, "decoder": step,
		"model": model})
	if err != nil {
		panic(err)
	}
	return content
}

// A byte that the vocabulary lacks concerns only a text that has it. The ids equal the reference library's (tokenizers
// 0.23.3).
func TestMissingBytes(t *testing.T) {
	for _, kind := range []struct {
		unknown      string
		fuse, ignore bool
		want         map[string][]int32
	}{
		{"", false, false, map[string][]int32{
			"ab":       []int32{3},
			"a\x01b":   []int32{0, 1},
			"aXb bc":   []int32{3, 4, 5},
			"Xab":      []int32{3},
			"X":        nil,
			"\x01\x01": nil,
			"aéXé b":   []int32{0, 6, 6, 4, 1},
			"ab\x01":   []int32{3},
		}},
		{"", true, true, map[string][]int32{
			"aXb bc": []int32{3, 4, 5},
			"Xab":    []int32{3},
		}},
		{"<unk>", false, false, map[string][]int32{
			"ab":     []int32{3},
			"aXb bc": []int32{0, 7, 1, 4, 5},
			"Xab":    []int32{7, 3},
			"aéXé b": []int32{0, 6, 7, 7, 6, 7, 4, 1},
		}},
		{"<unk>", true, false, map[string][]int32{
			"\x01\x01": []int32{7},
			"aéXé b":   []int32{0, 6, 7, 6, 7, 4, 1},
		}},
	} {
		path := testfile.Write(t, filepath.Join(t.TempDir(), FileName), lacking(kind.unknown, kind.fuse, kind.ignore))
		tok, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time from the cache
			for _, text := range slices.Sorted(maps.Keys(kind.want)) {
				if ids := tok.Encode(text); !slices.Equal(ids, kind.want[text]) {
					t.Errorf("unknown %q, fused %v: %q gives %v, want %v", kind.unknown, kind.fuse, text, ids,
						kind.want[text])
				}
			}
		}
	}
}

// A vocabulary without letters would drop most of every text without a word.
func TestVocabularyWithoutLetters(t *testing.T) {
	for unknown, want := range map[string]string{"": "model.vocab lacks ' ' and names no unknown token", "b": ""} {
		if _, err := Build(Description{Split: SplitGPT2, Pieces: []string{"a", "b"},
			Unknown: unknown}); fmt.Sprint(err) == "<nil>" != (want == "") ||
			!strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v, want %q", unknown, err, want)
		}
	}
}

func FuzzMissingBytes(f *testing.F) {
	var list []*Tokenizer
	for _, unknown := range []string{"", "<unk>"} {
		for _, fuse := range []bool{false, true} {
			tok, err := Parse(lacking(unknown, fuse, false))
			if err != nil {
				f.Fatal(err)
			}
			list = append(list, tok)
		}
	}
	f.Add("abc\x00\xff aéXbc")
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range list {
			ids := tok.Encode(text)
			if again := tok.Encode(text); !slices.Equal(again, ids) {
				t.Fatalf("tokenizer %d: %q gives %v, then %v", i, text, ids, again)
			}
			for _, id := range ids {
				if id < 0 || int(id) >= tok.VocabSize() {
					t.Fatalf("tokenizer %d: %q gives %v", i, text, ids)
				}
			}
		}
	})
}
