package tokenizer

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"popri/internal/fault"
	"popri/testkit/testfile"
)

// spModels are the files that scripts/sentencepiece_cases.py makes, by the numbering that they are for.
var spModels = map[Numbering]string{NumberingT5: "spiece.model", NumberingXLMR: "sentencepiece.bpe.model",
	NumberingCamemBERT: "sentencepiece.bpe.model"}

func spPath(n Numbering) string {
	root := os.Getenv("POPRI_SENTENCEPIECE") // a larger comparison than the repository has
	if root == "" {
		root = filepath.Join("testdata", "sentencepiece")
	}
	return filepath.Join(root, string(n), spModels[n])
}

// The ids equal the reference's, which converts the same file; the converted file gives the same tokenizer.
func TestSentencePieceEqualsTheReference(t *testing.T) {
	for n := range spModels {
		t.Run(string(n), func(t *testing.T) {
			path := spPath(n)
			tok, err := LoadSentencePiece(path, n)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(tok.JSON())
			if err != nil {
				t.Fatal(err)
			}
			cases := testfile.ReadLines[struct {
				Text string
				IDs  []int32
				Size int
			}](t, filepath.Join(filepath.Dir(path), "cases.jsonl"))
			prefix, suffix := tok.Template()
			for _, c := range cases {
				if got := slices.Concat(prefix, tok.Encode(c.Text), suffix); !slices.Equal(got, c.IDs) ||
					tok.VocabSize() != c.Size {
					t.Errorf("%q: ids %v of %d, want %v of %d", c.Text, got, tok.VocabSize(), c.IDs, c.Size)
				}
				if got := again.Encode(c.Text); !slices.Equal(got, tok.Encode(c.Text)) {
					t.Errorf("%q: ids %v from the converted file, %v from the model", c.Text, got, tok.Encode(c.Text))
				}
			}
			t.Logf("%s: %d texts", n, len(cases))
		})
	}
}

// message writes fields: numbers and values, a value being a text, a number, a score or the fields of a message.
func message(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		case uint32:
			b = protowire.AppendFixed32(protowire.AppendTag(b, number, protowire.Fixed32Type), v)
		}
	}
	return b
}

func spPiece(text string, kind int) []byte { return message(1, text, 2, uint32(0xc0000000), 3, kind) }

func TestSentencePieceRefuses(t *testing.T) {
	first := message(1, spPiece("<unk>", 2), 1, spPiece("<s>", 3), 1, spPiece("</s>", 3))
	for _, k := range []struct {
		name    string
		n       Numbering
		content []byte
		want    string
	}{
		{"nothing", NumberingT5, nil, "no pieces"},
		{"no message", NumberingT5, []byte("{\"version\": 1}"), "byte"},
		{"a message that is cut", NumberingT5, first[:len(first)-3], "field 1 at byte"},
		{"BPE", NumberingT5, slices.Concat(first, message(2, message(3, 2))), "model_type is 2 BPE"},
		{"byte fallback", NumberingT5, slices.Concat(first, message(2, message(35, 1))),
			"trainer_spec.byte_fallback true"},
		{"spaces after words", NumberingT5, slices.Concat(first, message(2, message(24, 1))),
			"treat_whitespace_as_suffix"},
		{"no space before the text", NumberingT5, slices.Concat(first, message(3, message(3, 0))),
			"add_dummy_prefix false"},
		{"all spaces", NumberingT5, slices.Concat(first, message(3, message(4, 0))), "remove_extra_whitespaces false"},
		{"another unknown piece", NumberingT5, slices.Concat(first, message(2, message(40, 2))), "unk_id is 2"},
		{"a negative unknown piece", NumberingT5, slices.Concat(first, message(2, message(40, -1))), "unk_id is -1"},
		{"another form", NumberingT5, slices.Concat(first, message(2, message(40, "x"))),
			"trainer_spec.unk_id is stored in the form 2"},
		{"a piece twice", NumberingT5, slices.Concat(first, message(1, spPiece("<s>", 1))), `same piece "<s>"`},
		{"an empty piece", NumberingT5, slices.Concat(first, message(1, spPiece("", 1))), "pieces[3].piece"},
		{"a piece that is no text", NumberingT5, slices.Concat(first, message(1, spPiece("\xff", 1))),
			"pieces[3].piece"},
		{"an endless score", NumberingT5, slices.Concat(first, message(1, message(1, "a", 2, uint32(0x7f800000)))),
			"pieces[3].score is +Inf"},
		{"no end", NumberingT5, message(1, spPiece("<unk>", 2)), `"</s>"`},
		{"a piece that would be dropped", NumberingXLMR,
			message(1, spPiece("<unk>", 2), 1, spPiece("a", 1), 1, spPiece("</s>", 3)), `pieces[1] is "a"`},
		{"too few pieces", NumberingXLMR, message(1, spPiece("<unk>", 2)), "1 pieces"},
		{"a mask of its own", NumberingXLMR, slices.Concat(first, message(1, spPiece("<mask>", 4))), `"<mask>"`},
		{"a damaged charsmap", NumberingT5, slices.Concat(first, message(3, message(2, "abcd"))),
			"precompiled_charsmap"},
		{"another numbering", "bert", first, `"bert"`},
	} {
		path := testfile.Write(t, filepath.Join(t.TempDir(), "spiece.model"), k.content)
		_, err := LoadSentencePiece(path, k.n)
		if !fault.IsUser(err) || !strings.Contains(err.Error(), k.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q and the path", k.name, err, k.want)
		}
	}
}

// tokenizer_config.json says how many extra ids there are; what contradicts the file is refused.
func TestSentencePieceConfig(t *testing.T) {
	content := testfile.Read(t, spPath(NumberingT5))
	dir := t.TempDir()
	path := filepath.Join(dir, "spiece.model")
	load := func(config string) (*Tokenizer, error) {
		t.Helper()
		for name, content := range map[string][]byte{path: content, filepath.Join(dir, configName): []byte(config)} {
			testfile.Write(t, name, content)
		}
		return LoadSentencePiece(path, NumberingT5)
	}
	plain, err := load(`{}`)
	if err != nil {
		t.Fatal(err)
	}
	few, err := load(`{"extra_ids": 3, "eos_token": "</s>", "added_tokens_decoder": {"1": {"content": "</s>"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := few.VocabSize(), plain.VocabSize()-97; got != want {
		t.Errorf("with 3 extra ids a vocabulary of %d, want %d", got, want)
	}
	if id, ok := few.ID("<extra_id_2>"); !ok || int(id) != few.VocabSize()-3 {
		t.Errorf("<extra_id_2> has the id %d in a vocabulary of %d", id, few.VocabSize())
	}
	for config, want := range map[string]string{
		`{"extra_ids": -1}`:                                     "extra_ids is -1",
		`{"add_prefix_space": false}`:                           "add_prefix_space",
		`{"eos_token": "<end>"}`:                                "<end>",
		`{"added_tokens_decoder": {"2": {"content": "<sep>"}}}`: "gives the id 2 to \"<sep>\"",
		`[`: configName,
	} {
		if _, err := load(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", config, err, want)
		}
	}
}

func FuzzParseSentencePiece(f *testing.F) {
	for n := range spModels {
		content := testfile.Read(f, spPath(n))
		f.Add(content, string(n))
		f.Add(content[:len(content)/2], string(n))
	}
	f.Add(message(1, spPiece("</s>", 3), 1, spPiece("<unk>", 2), 2, message(3, 1, 40, 1), 3, message(2, "")), "t5")
	f.Fuzz(func(t *testing.T, content []byte, n string) {
		before := bytes.Clone(content)
		tok, err := parseSentencePiece(content, Numbering(n), defaultExtraIDs)
		if !bytes.Equal(before, content) {
			t.Error("the content changed")
		}
		if err != nil {
			return
		}
		if again, err := Parse(tok.JSON()); err != nil || !slices.Equal(again.Encode(sample), tok.Encode(sample)) {
			t.Errorf("the converted file gives another tokenizer: %v", err)
		}
	})
}
