package tokenizer

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/quote"
)

// overrides are the settings of tokenizer_config.json that replace settings of the tokenizer.json next to it, as in
// transformers: tokens that stand there alone, and what its classes set in a normalizer of BERT and in a pre-tokenizer
// of GPT-2.
type overrides struct {
	Added map[string]decoderToken `json:"added_tokens_decoder"` // by their ids
	// Of a BertNormalizer.
	Lower   *bool `json:"do_lower_case"`
	Accents *bool `json:"strip_accents"`
	CJK     *bool `json:"tokenize_chinese_chars"`
	// Of ByteLevel, and of LLaMA's classes, whose normalizer writes ▁ before a text.
	Prefix *bool  `json:"add_prefix_space"`
	Class  string `json:"tokenizer_class"`
}

// decoderToken is a token of added_tokens_decoder, which is normalized if it is not special, unless it says otherwise.
type decoderToken struct {
	AddedToken
	Normalized *bool `json:"normalized"`
}

// ofLlama are the model types, "" of none, for which transformers makes a tokenizer of LLaMA's class where
// tokenizer_config.json names it. For others it goes by the tokenizer.json alone.
var ofLlama = []string{"", "llama", "gemma2", "smollm3"}

// obey returns the content of a tokenizer.json with what a tokenizer_config.json says otherwise, of a model of that type.
// Content that is damaged comes back as it is: anyone who parses it says why.
func obey(content, config []byte, kind string) ([]byte, error) {
	var o overrides
	if err := json.Unmarshal(exactjson.TrimBOM(config), &o); err != nil {
		return nil, quote.JSON(err)
	}
	var file map[string]json.RawMessage
	if json.Unmarshal(exactjson.TrimBOM(content), &file) != nil || file == nil {
		return content, nil
	}
	changed, err := o.add(file)
	if err != nil {
		return nil, err
	}
	set := func(part, kind string, settings map[string]*bool) {
		var fields map[string]json.RawMessage
		if json.Unmarshal(file[part], &fields) != nil || string(fields["type"]) != strconv.Quote(kind) {
			return
		}
		for name, value := range settings {
			if value != nil && string(fields[name]) != strconv.FormatBool(*value) {
				fields[name], changed = json.RawMessage(strconv.FormatBool(*value)), true
			}
		}
		file[part], err = json.Marshal(fields)
	}
	set("normalizer", "BertNormalizer", map[string]*bool{"lowercase": o.Lower, "strip_accents": o.Accents,
		"handle_chinese_chars": o.CJK})
	set("pre_tokenizer", "ByteLevel", map[string]*bool{"add_prefix_space": o.Prefix})
	if strings.TrimSuffix(o.Class, "Fast") == "LlamaTokenizer" && slices.Contains(ofLlama, kind) && o.Prefix != nil && !*o.Prefix {
		for _, c := range [][3]string{{"normalizer", "normalizers", "Prepend"}, {"decoder", "decoders", "Strip"}} {
			changed = without(file, c[0], c[1], c[2]) || changed
		}
	}
	if err != nil || !changed {
		return content, err
	}
	return json.Marshal(file)
}

// without takes the steps of a type out of a part of a tokenizer.json, and reports whether there was one.
func without(file map[string]json.RawMessage, part, list, kind string) bool {
	typeOf := func(step json.RawMessage) string {
		var s struct{ Type string }
		_ = json.Unmarshal(step, &s) // anyone who parses it says what is wrong
		return s.Type
	}
	if typeOf(file[part]) == kind {
		file[part] = json.RawMessage("null")
		return true
	}
	var fields map[string]json.RawMessage
	var steps []json.RawMessage
	if json.Unmarshal(file[part], &fields) != nil || json.Unmarshal(fields[list], &steps) != nil {
		return false
	}
	left := slices.DeleteFunc(slices.Clone(steps), func(step json.RawMessage) bool { return typeOf(step) == kind })
	if len(left) == len(steps) {
		return false
	}
	fields[list], _ = json.Marshal(left)
	file[part], _ = json.Marshal(fields)
	return true
}

// add adds the tokens that a tokenizer.json lacks, in the order of their ids.
func (o overrides) add(file map[string]json.RawMessage) (changed bool, err error) {
	var there []AddedToken
	if file["added_tokens"] != nil && json.Unmarshal(file["added_tokens"], &there) != nil {
		return false, nil
	}
	tokens := make([]AddedToken, 0, len(o.Added))
	for id, of := range o.Added {
		token := of.AddedToken
		if token.Normalized = !token.Special; of.Normalized != nil {
			token.Normalized = *of.Normalized
		}
		n, err := strconv.ParseInt(id, 10, 32)
		if err != nil || n < 0 {
			return false, quote.Errorf("added_tokens_decoder: %q is no id", id)
		}
		token.ID = int32(n)
		tokens = append(tokens, token)
	}
	slices.SortFunc(tokens, func(a, b AddedToken) int { return int(a.ID) - int(b.ID) })
	for _, token := range tokens {
		i := slices.IndexFunc(there, func(t AddedToken) bool { return t.Content == token.Content })
		switch {
		case i < 0:
			there, changed = append(there, token), true
		case there[i].ID != token.ID:
			return false, quote.Errorf("added_tokens_decoder gives %q the id %d, and tokenizer.json %d", token.Content, token.ID,
				there[i].ID)
		case there[i] != token:
			there[i], changed = token, true
		}
	}
	if changed {
		file["added_tokens"], err = json.Marshal(there)
	}
	return changed, err
}
