package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
)

// Numbering says which ids a kind of model gives to the pieces of SentencePiece's file.
type Numbering string

// The numberings of transformers' converters.
const (
	// NumberingT5 is SentencePiece's own; <extra_id_99> to <extra_id_0> follow. </s> ends a text.
	NumberingT5 Numbering = "t5"
	// NumberingXLMR is fairseq's: <s>, <pad>, </s>, <unk>, the pieces from the fourth on, <mask>.
	NumberingXLMR Numbering = "xlm-roberta"
	// NumberingCamemBERT has five pieces of its own before the second piece of the file, and <mask> at the end.
	NumberingCamemBERT Numbering = "camembert"
)

// defaultExtraIDs is how many tokens T5 adds where tokenizer_config.json does not say.
const defaultExtraIDs = 100

// LoadSentencePiece reads a unigram model in SentencePiece's own file (spiece.model, sentencepiece.bpe.model) as
// transformers converts it to tokenizer.json. [Tokenizer.JSON] returns that file. tokenizer_config.json next to the
// model is read as by [Load], and its extra_ids.
func LoadSentencePiece(path string, n Numbering) (*Tokenizer, error) {
	content, err := fault.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	configPath := filepath.Join(filepath.Dir(path), configName)
	extra := defaultExtraIDs
	var config struct {
		Extra  *int                               `json:"extra_ids"`
		Prefix *bool                              `json:"add_prefix_space"`
		Added  map[int32]struct{ Content string } `json:"added_tokens_decoder"`
	}
	raw, err := fault.ReadFile(configPath)
	if err == nil {
		if err := json.Unmarshal(exactjson.TrimBOM(raw), &config); err != nil {
			return nil, malformed(configPath, quote.JSON(err).Error())
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if config.Prefix != nil && !*config.Prefix {
		return nil, malformed(configPath, "add_prefix_space false is not supported without "+FileName)
	}
	if config.Extra != nil {
		extra = *config.Extra
	}
	t, err := parseSentencePiece(content, n, extra)
	if err != nil {
		return nil, malformed(path, err.Error())
	}
	for id, token := range config.Added {
		if t.Token(id) != token.Content {
			return nil, malformed(configPath, quote.Sprintf("added_tokens_decoder gives the id %d to %q, %s to %q",
				id, token.Content, quote.Raw(path), t.Token(id)))
		}
	}
	if err := t.readNames(path); err != nil {
		return nil, err
	}
	return t, nil
}

// parseSentencePiece reads the content of SentencePiece's file. extra is T5's number of extra ids.
func parseSentencePiece(content []byte, n Numbering, extra int) (*Tokenizer, error) {
	m, err := readSentencePiece(content)
	if err != nil {
		return nil, err
	}
	file, err := m.tokenizerJSON(n, extra)
	if err != nil {
		return nil, err
	}
	return parse(file)
}

// numbered is the list of pieces of tokenizer.json under way.
type numbered struct {
	vocab   [][2]any
	added   []AddedToken
	ids     map[string]int
	unknown int
}

func (n *numbered) add(text string, score float64) {
	n.ids[text] = len(n.vocab)
	n.vocab = append(n.vocab, [2]any{text, score})
}

// addSpecial adds a special token.
func (n *numbered) addSpecial(text string, score float64, stripsLeft bool) {
	n.added = append(n.added, AddedToken{ID: int32(len(n.vocab)), Content: text, Special: true, LStrip: stripsLeft})
	n.add(text, score)
}

// tokenizerJSON writes what transformers' converter makes of the file.
func (m *sentencePiece) tokenizerJSON(kind Numbering, extra int) ([]byte, error) {
	n := &numbered{ids: map[string]int{}, unknown: 3}
	before, after := []string{"<s>"}, []string{"</s>"}
	var first []string // in the place of as many pieces as replaced says
	replaced := 0
	switch kind {
	case NumberingT5:
		if extra < 0 || extra > 1<<16 {
			return nil, fmt.Errorf("%s: extra_ids is %d", configName, extra)
		}
		before, n.unknown = nil, int(m.unknown)
	case NumberingXLMR:
		first, replaced = []string{"<s>", "<pad>", "</s>", "<unk>"}, 3
	case NumberingCamemBERT:
		first, replaced = []string{"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"}, 1
	default:
		return nil, quote.Errorf("there is no numbering %q", string(kind))
	}
	if len(m.pieces) < replaced {
		return nil, fmt.Errorf("it has %d pieces, the numbering of %s replaces %d", len(m.pieces),
			quote.Raw(string(kind)), replaced)
	}
	for i, p := range m.pieces[:replaced] {
		if p.kind != pieceUnknown && p.kind != pieceControl {
			return nil, quote.Errorf("pieces[%d] is %q, which the numbering of %s would drop", i, p.text, quote.Raw(string(kind)))
		}
	}
	for _, text := range first {
		if strings.HasSuffix(text, "NOTUSED") {
			n.add(text, 0)
		} else {
			n.addSpecial(text, 0, false)
		}
	}
	if kind == NumberingCamemBERT {
		n.vocab[4][1] = -100 // the converter's
	}
	for _, p := range m.pieces[replaced:] {
		switch p.kind {
		case pieceControl, pieceUnknown:
			n.addSpecial(p.text, float64(p.score), false)
		case pieceUser:
			n.added = append(n.added, AddedToken{ID: int32(len(n.vocab)), Content: p.text})
			fallthrough
		default:
			n.add(p.text, float64(p.score))
		}
	}
	if kind != NumberingT5 {
		n.addSpecial("<mask>", 0, true)
		extra = 0
	}
	for i := extra - 1; i >= 0; i-- {
		n.addSpecial(fmt.Sprintf("<extra_id_%d>", i), 0, false)
	}
	return n.file(m.charsmap, before, after)
}

// file writes tokenizer.json.
func (n *numbered) file(charsmap []byte, before, after []string) ([]byte, error) {
	t := template{names: map[int32]string{}, specials: object{}}
	var sides [2][]int32
	for i, names := range [][]string{before, after} {
		for _, name := range names {
			id, ok := n.ids[name]
			if !ok {
				return nil, quote.Errorf("it has no piece %q, which stands at the end or the start of a text", name)
			}
			t.names[int32(id)] = name
			sides[i] = append(sides[i], int32(id))
		}
	}
	single := t.around("A", 0, sides[0], sides[1])
	space := object{"type": "Metaspace", "replacement": blank, "prepend_scheme": "always", "split": true}
	var normalizer any
	if len(charsmap) > 0 {
		normalizer = object{"type": "Precompiled", "precompiled_charsmap": base64.StdEncoding.EncodeToString(charsmap)}
	}
	return marshal(object{"version": "1.0", "added_tokens": n.added, "normalizer": normalizer, "decoder": space,
		"pre_tokenizer":  object{"type": "Sequence", "pretokenizers": []any{object{"type": "WhitespaceSplit"}, space}},
		"post_processor": object{"type": "TemplateProcessing", "single": single, "special_tokens": t.specials},
		"model":          object{"type": "Unigram", "unk_id": n.unknown, "vocab": n.vocab, "byte_fallback": false}})
}
