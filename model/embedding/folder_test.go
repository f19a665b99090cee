package embedding_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/safetensors"
	"popri/model/tokenizer"
	"popri/testkit/testfile"
)

type object = map[string]any

// folder writes the folder of a sentence encoder with random weights.
type folder struct {
	t       testing.TB
	dir     string
	seed    uint64
	tensors []safetensors.Tensor
}

func newFolder(t testing.TB) *folder { return &folder{t: t, dir: t.TempDir(), seed: 1} }

func (f *folder) write(name string, v any) {
	f.t.Helper()
	testfile.WriteJSON(f.t, filepath.Join(f.dir, name), v)
}

// random adds a tensor of values from around - spread to around + spread.
func (f *folder) random(name string, spread, around float32, shape ...int64) {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		f.seed = f.seed*6364136223846793005 + 1442695040888963407
		data[i] = around + spread*(float32(f.seed>>40)/(1<<23)-1)
	}
	f.tensors = append(f.tensors, safetensors.FromFloat32(name, shape, data))
}

func (f *folder) norm(name string, h int64) {
	f.random(name+".weight", 0.1, 1, h)
	f.random(name+".bias", 0.1, 0, h)
}

func (f *folder) dense(name string, out, in int64) {
	f.random(name+".weight", 0.1, 0, out, in)
	f.random(name+".bias", 0.1, 0, out)
}

// weights writes the tensors to a folder inside the folder and forgets them.
func (f *folder) weights(place string) {
	f.t.Helper()
	if err := safetensors.Write(filepath.Join(f.dir, place, safetensors.ModelFile), f.tensors, nil); err != nil {
		f.t.Fatal(err)
	}
	f.tensors = nil
}

func special(id int, content string) object {
	return object{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
		"normalized": false, "special": true}
}

// vocabulary numbers pieces: some first, the suite's words and letters as spelled by two functions.
func vocabulary(first []string, word func(string) string, letter func(string) []string) map[string]int {
	vocab := map[string]int{}
	add := func(piece string) {
		if _, ok := vocab[piece]; !ok {
			vocab[piece] = len(vocab)
		}
	}
	for _, piece := range first {
		add(piece)
	}
	for _, triple := range triples {
		for _, line := range triple {
			for _, w := range strings.Fields(line) {
				add(word(w))
			}
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		for _, piece := range letter(string(c)) {
			add(piece)
		}
	}
	return vocab
}

// wordPiece writes a tokenizer of BERT's kind with these tokens before and after a text, and returns the size of its
// vocabulary.
func (f *folder) wordPiece(first []string, before, after string) int {
	vocab := vocabulary(first, func(w string) string { return w },
		func(c string) []string { return []string{c, "##" + c} })
	var added []any
	for _, name := range first {
		added = append(added, special(vocab[name], name))
	}
	part := func(name string) object { return object{"SpecialToken": object{"id": name, "type_id": 0}} }
	f.write("tokenizer.json", object{"version": "1.0", "added_tokens": added,
		"normalizer": object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
			"strip_accents": nil, "lowercase": true},
		"pre_tokenizer": object{"type": "BertPreTokenizer"},
		"post_processor": object{"type": "TemplateProcessing",
			"single": []any{part(before), object{"Sequence": object{"id": "A", "type_id": 0}}, part(after)},
			"special_tokens": object{
				before: object{"id": before, "ids": []int{vocab[before]}, "tokens": []string{before}},
				after:  object{"id": after, "ids": []int{vocab[after]}, "tokens": []string{after}}}},
		"decoder": object{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": object{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": vocab}})
	return len(vocab)
}

// unigram writes a tokenizer of T5's kind and returns the size of its vocabulary.
func (f *folder) unigram() int {
	vocab := vocabulary([]string{"<pad>", "</s>", "<unk>", "▁"}, func(w string) string { return "▁" + w },
		func(c string) []string { return []string{c} })
	pieces := make([]any, len(vocab))
	for piece, id := range vocab {
		pieces[id] = []any{piece, -float64(id%7) - 3}
	}
	space := object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
	f.write("tokenizer.json", object{"version": "1.0", "added_tokens": []any{special(0, "<pad>"), special(1, "</s>")},
		"normalizer": nil, "pre_tokenizer": space, "decoder": space,
		"post_processor": object{"type": "TemplateProcessing", "single": []any{
			object{"Sequence": object{"id": "A", "type_id": 0}},
			object{"SpecialToken": object{"id": "</s>", "type_id": 0}}},
			"special_tokens": object{"</s>": object{"id": "</s>", "ids": []int{1}, "tokens": []string{"</s>"}}}},
		"model": object{"type": "Unigram", "unk_id": 2, "vocab": pieces, "byte_fallback": false}})
	return len(vocab)
}

// byteLevel writes a tokenizer of RoBERTa's kind, whose pieces it learns from the suite's texts, and returns the size
// of its vocabulary.
func (f *folder) byteLevel() int {
	f.t.Helper()
	var lines []string
	for _, triple := range triples {
		for _, line := range triple {
			lines = append(lines, " "+line)
		}
	}
	learnt, err := tokenizer.TrainBPE(slices.Values(lines), tokenizer.TrainOptions{VocabSize: 500})
	if err != nil {
		f.t.Fatal(err)
	}
	var file object
	if err := json.Unmarshal(learnt.JSON(), &file); err != nil {
		f.t.Fatal(err)
	}
	first := []string{"<s>", "<pad>", "</s>", "<unk>"}
	vocab := object{}
	for piece, id := range file["model"].(object)["vocab"].(object) {
		vocab[piece] = int(id.(float64)) + len(first)
	}
	var added []any
	for id, name := range append(first, "<mask>") {
		if name == "<mask>" {
			id = len(vocab)
		}
		vocab[name] = id
		token := special(id, name)
		token["lstrip"] = name == "<mask>"
		added = append(added, token)
	}
	file["model"].(object)["vocab"], file["added_tokens"] = vocab, added
	file["post_processor"] = object{"type": "RobertaProcessing", "sep": []any{"</s>", 2}, "cls": []any{"<s>", 0},
		"trim_offsets": true, "add_prefix_space": true}
	file["pre_tokenizer"].(object)["add_prefix_space"] = true // so that a word has the same id wherever it stands
	file["truncation"] = object{"direction": "Right", "max_length": 128, "strategy": "LongestFirst", "stride": 0}
	f.write("tokenizer.json", file)
	return len(vocab)
}
