package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// A tokenizer that is built of the description of another one gives what that gives.
func TestBuildOfADescription(t *testing.T) {
	texts := []string{"", "the cat's 123 hats", " <s>x</s> \n\n y", "ÅA\u030a é日本😀", "<|endoftext|>12  3"}
	for _, name := range []string{"testdata/digits", "testdata/qwen-nfc", "testdata/o200k", "testdata/byte-fallback",
		"../../testdata/golden/tokenizers/gpt2-512", "../../testdata/golden/tokenizers/llama3-4096"} {
		want, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := want.Description()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Build(d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range texts {
			ids := want.Encode(text)
			if mine := got.Encode(text); !slices.Equal(mine, ids) {
				t.Errorf("%s: %q gives %v, want %v", name, text, mine, ids)
			}
			if a, b := got.Decode(ids, true), want.Decode(ids, true); a != b {
				t.Errorf("%s: %v decodes to %q, want %q", name, ids, a, b)
			}
		}
		if before, _ := got.Template(); !slices.Equal(before, d.Before) {
			t.Errorf("%s: the template begins with %v", name, before)
		}
		if again, err := Parse(got.JSON()); err != nil || again.VocabSize() != want.VocabSize() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, c := range []struct {
		d    Description
		want string
	}{
		{Description{Split: "words"}, `no split "words"`},
		{Description{Split: SplitGPT2, Pieces: []string{"a", "b", "a"}}, `ids 0 and 2 have the same piece "a"`},
		{Description{Split: SplitGPT2, Prepend: true}, "puts a space before"},
		{Description{Split: SplitGPT2, Pieces: []string{"a"}, After: []int32{3}},
			"token 3, which is not in the vocabulary"},
		{Description{Split: SplitGPT2, Pieces: []string{"a"}, Merges: [][2]string{{"a", "b"}}},
			`"b" is not in the vocabulary`},
		{Description{Pieces: []string{"▁"}}, "<0x00>"},
	} {
		if _, err := Build(c.d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
