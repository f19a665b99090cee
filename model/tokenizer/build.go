package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"popri/internal/quote"
)

// Split says how byte-level BPE cuts a text into words.
type Split string

// The splits that are known.
const (
	SplitGPT2   Split = "gpt2"
	SplitDigits Split = "digits" // as GPT-2, after single digits: SmolLM
	SplitLlama3 Split = "llama3"
	SplitQwen2  Split = "qwen2"
	SplitO200K  Split = "o200k"
)

// Description is what a BPE tokenizer is made of, as files of other formats hold it.
type Description struct {
	// Pieces are the vocabulary by id, as tokenizer.json writes them; "" where an id has none or belongs to an added
	// token.
	Pieces []string
	Merges [][2]string
	Added  []AddedToken

	// Split makes a byte-level tokenizer. "" makes one of characters that falls back to bytes (LLaMA 2), whose pieces
	// write ▁ for a space.
	Split Split
	// NFC composes characters before anything else; byte-level only.
	NFC bool
	// IgnoreMerges takes a word that is a piece as that piece, whatever the merges would make of it; byte-level only.
	IgnoreMerges bool
	// Prepend puts a space before every part of the text between added tokens; byte fallback only.
	Prepend bool
	// Scheme is Metaspace's prepend_scheme, where that puts the space: not before a part that begins with one, and with
	// "first" before the text alone. [Build] takes "".
	Scheme string
	// Unknown is the piece for what the vocabulary lacks; "" for none. With byte fallback nothing is lacking.
	Unknown string
	// Before and After are put around a text where a template is asked for, see [Tokenizer.Template].
	Before, After []int32
}

// Build makes a tokenizer, as if its tokenizer.json had been read; [Tokenizer.JSON] returns that. What [Parse] would
// refuse gives an error.
func Build(d Description) (*Tokenizer, error) {
	file := fileJSON{Version: "1.0", AddedTokens: append([]AddedToken{}, d.Added...)}
	vocab, err := d.vocabulary()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	file.Model = modelJSON{Type: "BPE", Vocab: vocab, Merges: append([][2]string{}, d.Merges...), IgnoreMerges: d.IgnoreMerges}
	if d.Unknown != "" {
		file.Model.UnkToken = &d.Unknown
	}
	if d.Split == "" {
		d.byteFallback(&file)
	} else if err := d.byteLevel(&file); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if len(d.Before)+len(d.After) > 0 {
		if file.PostProcessor, err = d.template(); err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
	}
	content, err := marshal(file)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return Parse(content)
}

// The parts of tokenizer.json as they are written, in the reference's order.
type (
	fileJSON  = parts[any, bpe[json.RawMessage, [][2]string]]
	modelJSON = bpe[json.RawMessage, [][2]string]
	object    map[string]any
)

func byteLevelStep(useRegex bool) byteLevelSettings {
	return byteLevelSettings{Type: "ByteLevel", UseRegex: &useRegex}
}

// vocabulary writes the pieces in the order of their ids.
func (d Description) vocabulary() (json.RawMessage, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	first := make(map[string]int, len(d.Pieces))
	for id, piece := range d.Pieces {
		if piece == "" {
			continue
		}
		if other, twice := first[piece]; twice {
			return nil, quote.Errorf("the ids %d and %d have the same piece %q", other, id, piece)
		}
		first[piece] = id
		key, err := marshal(piece)
		if err != nil {
			return nil, err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%s:%d", key, id)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func (d Description) byteLevel(file *fileJSON) error {
	sequence := func(first any, useRegex bool) any {
		return object{"type": "Sequence", "pretokenizers": []any{first, byteLevelStep(useRegex)}}
	}
	split, ok := splits[d.Split]
	switch {
	case !ok:
		return quote.Errorf("there is no split %q", string(d.Split))
	case d.Split == SplitGPT2:
		file.PreTokenizer = byteLevelStep(true)
	case d.Split == SplitDigits:
		file.PreTokenizer = sequence(object{"type": "Digits", "individual_digits": true}, true)
	default:
		file.PreTokenizer = sequence(object{"type": "Split", "pattern": object{"Regex": split.pattern},
			"behavior": "Isolated", "invert": false}, false)
	}
	if d.Prepend {
		return errors.New("a byte-level tokenizer that puts a space before the text is not supported")
	}
	if d.NFC {
		file.Normalizer = object{"type": "NFC"}
	}
	file.PostProcessor, file.Decoder = byteLevelStep(true), byteLevelStep(true)
	return nil
}

// byteFallback writes the steps of LLaMA 2's own file.
func (d Description) byteFallback(file *fileJSON) {
	replace := func(from, to string) any {
		return object{"type": "Replace", "pattern": object{"String": from}, "content": to}
	}
	normalizers := []any{replace(" ", blank)}
	decoders := []any{replace(blank, " "), object{"type": "ByteFallback"}, object{"type": "Fuse"}}
	if d.Prepend {
		normalizers = append([]any{object{"type": "Prepend", "prepend": blank}}, normalizers...)
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	file.Normalizer = object{"type": "Sequence", "normalizers": normalizers}
	file.Decoder = object{"type": "Sequence", "decoders": decoders}
	file.Model.ByteFallback, file.Model.FuseUnk = true, d.Unknown != ""
}

// template writes the post-processor that puts tokens around a text or a pair of texts.
func (d Description) template() (any, error) {
	names := map[int32]string{}
	for id, piece := range d.Pieces {
		names[int32(id)] = piece
	}
	for _, a := range d.Added {
		names[a.ID] = a.Content
	}
	for _, id := range slices.Concat(d.Before, d.After) {
		if names[id] == "" {
			return nil, fmt.Errorf("the template names the token %d, which is not in the vocabulary", id)
		}
	}
	t := template{names: names, specials: object{}}
	single := t.around("A", 0, d.Before, d.After)
	return object{"type": "TemplateProcessing", "single": single,
		"pair": append(single, t.around("B", 1, d.Before, d.After)...), "special_tokens": t.specials}, nil
}

// template is a TemplateProcessing under way.
type template struct {
	names    map[int32]string
	specials object
}

// around puts tokens before and after a text, which has a name and a type.
func (t template) around(text string, kind int, before, after []int32) []any {
	tokens := func(ids []int32) (items []any) {
		for _, id := range ids {
			name := t.names[id]
			t.specials[name] = object{"id": name, "ids": []int32{id}, "tokens": []string{name}}
			items = append(items, object{"SpecialToken": object{"id": name, "type_id": kind}})
		}
		return items
	}
	return slices.Concat(tokens(before), []any{object{"Sequence": object{"id": text, "type_id": kind}}}, tokens(after))
}
