package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// The path must have the largest sum of scores of all ways to divide a word.
func TestUnigramFindsTheBestPath(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		ids, pieceOf := map[string]int32{"<unk>": 0}, []string{"<unk>"}
		scores := []float64{0}
		for range 1 + random.IntN(12) {
			piece := make([]byte, 1+random.IntN(4))
			for i := range piece {
				piece[i] = "abc"[random.IntN(3)]
			}
			if _, twice := ids[string(piece)]; !twice {
				ids[string(piece)] = int32(len(scores))
				scores = append(scores, -10*random.Float64())
				pieceOf = append(pieceOf, string(piece))
			}
		}
		v, err := newVocabulary(ids, nil, func(p string) string { return p })
		if err != nil {
			t.Fatal(err)
		}
		m, err := newUnigram(v, scores, new(int), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		word := make([]byte, random.IntN(9))
		for i := range word {
			word[i] = "abcd"[random.IntN(4)]
		}
		var best func(rest string) float64
		best = func(rest string) float64 {
			if rest == "" {
				return 0
			}
			top := m.unknownScore + best(rest[1:])
			if _, ok := ids[rest[:1]]; ok {
				top = -1e9
			}
			for n := 1; n <= len(rest); n++ {
				if id, ok := ids[rest[:n]]; ok {
					top = max(top, scores[id]+best(rest[n:]))
				}
			}
			return top
		}
		sum, unknown := 0.0, len(word)
		for _, id := range m.pieces(nil, string(word)) {
			if id > 0 {
				sum += scores[id]
				unknown -= len(pieceOf[id])
			}
		}
		sum += float64(unknown) * m.unknownScore
		if want := best(string(word)); unknown < 0 || sum < want-1e-9 || sum > want+1e-9 {
			t.Errorf("%q: the pieces' scores have the sum %g, the best is %g", word, sum, want)
		}
	}
}

func charsmapOf(units []uint32, texts string) string {
	raw := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		raw = binary.LittleEndian.AppendUint32(raw, u)
	}
	return base64.StdEncoding.EncodeToString(append(raw, texts...))
}

// A damaged table gives an error or replaces nothing; it never reads outside of itself.
func TestPrecompiledRefuses(t *testing.T) {
	for name, charsmap := range map[string]string{
		"no base64": "§", "nothing": "", "no array": "AAAAAA==", "an array of five bytes": "BQAAAAAAAAAA",
		"an array that is cut": "CAAAAAAAAAA=", "texts that are not UTF-8": charsmapOf([]uint32{0}, "\xff"),
	} {
		if _, err := newPrecompiled(charsmap); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		units := make([]uint32, 1+random.IntN(300))
		for i := range units {
			units[i] = random.Uint32() >> random.IntN(32)
			if random.IntN(2) == 0 { // nodes that are reached
				units[i] = units[i]&^0xff | uint32(i)&0xff
			}
		}
		p, err := newPrecompiled(charsmapOf(units, "ab\x00é\x00"))
		if err != nil {
			t.Fatal(err)
		}
		p.normalize(sample)
	}
}

func TestUnigramRefuses(t *testing.T) {
	content := string(testfile.Read(t, filepath.Join("testdata", "unigram-t5", FileName)))
	at := strings.Index(content, `"unk_id":`)
	for _, k := range []struct{ from, to, want string }{
		{`"unk_id": 0`, `"unk_id": null`, "unk_id is missing"},
		{`"unk_id": 0`, `"unk_id": 100000`, "unk_id is 100000"},
		{`"byte_fallback"`, `"other"`, `"other"`},
		{`"vocab": [`, `"vocab": {}, "x": [`, "list of pieces"},
		{`"vocab": [`, `"vocab": [["a", "b"],`, "not a piece and its score"},
		{`"vocab": [`, `"vocab": [["a", 1, 2],`, "not a piece and its score"},
		{`"vocab": [`, `"vocab": [["<unk>", 1],`, "same piece"},
		{`"vocab": [`, `"vocab": [["a", 1e999],`, "1e999"},
		{`"Precompiled"`, `"NFKD"`, `"NFKD" is not supported`},
		{`"WhitespaceSplit"`, `"Whitespace"`, `"Whitespace" is not supported`},
		{`"add_prefix_space": true`, `"add_prefix_space": false`, "contradicts itself"},
		{`"replacement": "▁"`, `"replacement": "__"`, "not one character"},
		{`"Metaspace"`, `"Metaspaces"`, "Metaspaces"},
	} {
		changed := strings.Replace(content, k.from, k.to, 1)
		if strings.HasPrefix(k.from, `"vocab`) { // the first is the one of the model
			changed = content[:at] + strings.Replace(content[at:], k.from, k.to, 1)
		}
		if changed == content {
			t.Fatalf("the file holds no %s", k.from)
		}
		if _, err := Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: error %v, want one with %q", k.to, err, k.want)
		}
	}
}

// White space beside a token that strips is a part of it.
func TestAddedTokensTakeWhiteSpace(t *testing.T) {
	tok, err := Load(filepath.Join("testdata", "unigram-t5"))
	if err != nil {
		t.Fatal(err)
	}
	if text := tok.Decode(tok.Encode("a \t<extra_id_0>\u3000 a"), true); text != "a a" {
		t.Errorf("decoded %q", text)
	}
}

// TestStrippedStart: where Strip takes the white space that begins a text, Metaspace's scheme first puts no mark before the
// rest. The ids equal tokenizers 0.23's.
func TestStrippedStart(t *testing.T) {
	var file map[string]any
	testfile.ReadJSON(t, filepath.Join("testdata", "unigram-xlmr", FileName), &file)
	steps := file["normalizer"].(map[string]any)
	steps["normalizers"] = append(steps["normalizers"].([]any), map[string]any{"type": "Strip", "strip_left": true, "strip_right": false})
	content, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{" the": {73}, "the": {36}, "\ta": {4}, "\u00a0x1": {20, 49}, " the<s>\tZ": {73, 1, 0},
		"\n.": {86}} {
		if got := tok.Encode(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
