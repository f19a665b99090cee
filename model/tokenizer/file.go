package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"popri/internal/atomicfile"
	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
)

// The names that model folders use.
const (
	FileName   = "tokenizer.json"
	configName = "tokenizer_config.json"
)

// malformed is the error of a tokenizer file that is damaged, or needs what is not supported. The user must change it.
func malformed(path, problem string) error { return fault.Userf("tokenizer: %s: %s", path, problem) }

// Load reads a tokenizer.json, or the one in a folder. Files next to it name the tokens for
// [Tokenizer.EOS] and [Tokenizer.BOS] ([SpecialTokens]), and settings of a tokenizer_config.json replace the
// tokenizer.json's ([overrides]). Content that is damaged or not supported is the user's mistake.
func Load(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	content, err := fault.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w%s", err, otherForm(filepath.Dir(path)))
	}
	config := filepath.Join(filepath.Dir(path), configName)
	settings, err := fault.ReadFile(config)
	if err == nil {
		var kind string
		model, err := fields(filepath.Dir(path), "config.json")
		if err != nil {
			return nil, err
		}
		_ = json.Unmarshal(model["model_type"], &kind) // another type names no model
		if content, err = obey(content, settings, kind); err != nil {
			return nil, malformed(config, err.Error())
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := parse(content)
	if err != nil {
		return nil, malformed(path, err.Error())
	}
	if err := t.readNames(path); err != nil {
		return nil, err
	}
	return t, nil
}

// otherForm says how to make a tokenizer.json of what a folder has instead, if it has that.
func otherForm(dir string) string {
	for _, name := range []string{"spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "vocab.txt", "vocab.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return quote.Sprintf(": the folder has %s only; in Python, transformers.AutoTokenizer.from_pretrained(%q)."+
				"save_pretrained(%[2]q) writes tokenizer.json next to it", name, dir)
		}
	}
	return ""
}

// readNames reads which tokens the files next to a tokenizer.json name.
func (t *Tokenizer) readNames(path string) error {
	tokens, named, err := SpecialTokens(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, key := range []string{"eos_token", "bos_token", "pad_token"} {
		if _, ok := t.ID(tokens[key]); named[key] != "" && !ok {
			return malformed(filepath.Join(filepath.Dir(path), named[key]),
				quote.Sprintf("%s %q is not a token of %s", key, tokens[key], path))
		}
	}
	t.special = tokens
	return nil
}

// Save writes the tokenizer.json in one step. A tokenizer that was loaded writes the content that it was
// loaded from, with what its tokenizer_config.json replaces.
func (t *Tokenizer) Save(path string) error {
	if err := atomicfile.WriteBytes(path, t.source); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	return nil
}

// JSON returns a copy of the tokenizer.json, for a hash or for embedding into another file.
func (t *Tokenizer) JSON() []byte { return slices.Clone(t.source) }

// Parse reads the content of a tokenizer.json.
func Parse(content []byte) (*Tokenizer, error) {
	t, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// specialName is a token's content: a string, or an object that holds it.
type specialName string

func (n *specialName) UnmarshalJSON(b []byte) error {
	var object struct{ Content string }
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &object)
		*n = specialName(object.Content)
		return err
	}
	return json.Unmarshal(b, (*string)(n))
}

func parse(content []byte) (*Tokenizer, error) {
	if !utf8.Valid(content) {
		return nil, errors.New("is not UTF-8")
	}
	t := &Tokenizer{source: slices.Clone(content)}
	content = exactjson.TrimBOM(content)
	var file tokenizerFile
	if err := json.Unmarshal(content, &struct{}{}); err != nil { // an object, and nothing after it
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	if err := strict(content, &file); err != nil {
		return nil, err
	}
	if file.Version != "1.0" {
		return nil, quote.Errorf("version %q is not supported (supported: \"1.0\")", file.Version)
	}
	if isNull(file.Model) {
		return nil, errors.New("model is missing")
	}
	kind, err := modelType(file.Model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	added := file.AddedTokens
	for _, a := range added {
		if a.SingleWord {
			return nil, quote.Errorf("added_tokens: %q has single_word, which is not supported", a.Content)
		}
	}
	switch kind {
	case "BPE":
		var settings bpeSettings
		if err := strict(file.Model, &settings); err != nil {
			return nil, err
		}
		if err := checkBPE(&settings); err != nil {
			return nil, err
		}
		if settings.ByteFallback {
			err = t.parseByteFallback(&file, &settings, added)
		} else {
			err = t.parseBPE(&file, &settings, added)
		}
	case "WordPiece":
		err = t.parseWordPiece(&file, added)
	case "Unigram":
		err = t.parseUnigram(&file, added)
	default:
		err = quote.Errorf("model type %q is not supported (supported: BPE, WordPiece, Unigram)", kind)
	}
	if err != nil {
		return nil, err
	}
	if err := t.parsePostProcessor(file.PostProcessor); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	var plain, normalized []match
	for _, a := range added {
		if !a.Normalized || t.normalizer == nil {
			if m := (match{a.Content, a}); a.Normalized {
				normalized = append(normalized, m)
			} else {
				plain = append(plain, m)
			}
			continue
		}
		text := t.normalizer.normalize(a.Content)
		if text == "" {
			return nil, quote.Errorf("added_tokens: nothing is left of %q when it is normalized", a.Content)
		}
		normalized = append(normalized, match{text, a})
		// The reference decodes such a token to the text by which it is found.
		if t.vocab.bytes[a.ID] = text; t.joiner == nil {
			t.vocab.bytes[a.ID] = bytesOfPiece(text)
		}
		t.vocab.shown[a.ID] = text
	}
	t.first, t.then = newMatcher(plain), newMatcher(normalized)
	return t, nil
}
