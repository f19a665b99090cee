package convert

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/internal/numeric"
	"popri/model/gguf"
	"popri/model/tokenizer"
)

// What kind of token an id is, tokenizer.ggml.token_type.
const (
	tokenNormal      = 1
	tokenUnknown     = 2
	tokenControl     = 3
	tokenUserDefined = 4
	tokenUnused      = 5
	tokenByte        = 6
)

// The keys of a file's tokenizer, and the values of the first one that are known.
const (
	modelKey    = "tokenizer.ggml.model"
	preKey      = "tokenizer.ggml.pre"
	tokensKey   = "tokenizer.ggml.tokens"
	typesKey    = "tokenizer.ggml.token_type"
	mergesKey   = "tokenizer.ggml.merges"
	scoresKey   = "tokenizer.ggml.scores"
	prefixKey   = "tokenizer.ggml.add_space_prefix"
	beginKey    = "tokenizer.ggml.add_bos_token"
	endKey      = "tokenizer.ggml.add_eos_token"
	templateKey = "tokenizer.chat_template"

	byteLevelModel, sentencePieceModel = "gpt2", "llama"
)

// split is a value of tokenizer.ggml.pre, which says how text is cut into words. nfc and whole are what the published
// tokenizers of these models do besides; begin says that texts begin with a token unless the file says otherwise.
type split struct {
	pre        string
	split      tokenizer.Split
	nfc, whole bool
	begin      bool
}

// splits are those that are read. An export writes the first one that does as the tokenizer does.
var splits = []split{
	{pre: "gpt-2", split: tokenizer.SplitGPT2},
	{pre: "smollm", split: tokenizer.SplitDigits},
	{pre: "llama-bpe", split: tokenizer.SplitLlama3, whole: true, begin: true},
	{pre: "llama3", split: tokenizer.SplitLlama3, whole: true, begin: true},
	{pre: "llama-v3", split: tokenizer.SplitLlama3, whole: true, begin: true},
	{pre: "dbrx", split: tokenizer.SplitLlama3},
	{pre: "smaug-bpe", split: tokenizer.SplitLlama3},
	{pre: "refact", split: tokenizer.SplitDigits},
	{pre: "starcoder", split: tokenizer.SplitDigits},
	{pre: "gpt-4o", split: tokenizer.SplitO200K},
	{pre: "qwen2", split: tokenizer.SplitQwen2, nfc: true},
	{pre: "deepseek-r1-qwen", split: tokenizer.SplitQwen2},
}

// vocabulary is what the file says about tokens.
type vocabulary struct {
	file   *gguf.File
	tokens []string
	types  []int64 // nil means that all are normal
	begin  bool    // texts begin with the token of bos
	end    bool    // and end with the token of eos
	ids    map[string]int32
}

// named are the keys of tokens with a role, and their names in tokenizer_config.json.
var named = []struct{ role, key, config string }{
	{"bos", "tokenizer.ggml.bos_token_id", "bos_token"},
	{"eos", "tokenizer.ggml.eos_token_id", "eos_token"},
	{"unk", "tokenizer.ggml.unknown_token_id", "unk_token"},
	{"pad", "tokenizer.ggml.padding_token_id", "pad_token"},
	{"eot", "tokenizer.ggml.eot_token_id", ""}, // ends a turn of a conversation
	{"eom", "tokenizer.ggml.eom_token_id", ""}, // and this one a message
}

// endRoles are the roles of the tokens that end what a model writes.
var endRoles = []string{"eos", "eot", "eom"}

// endTexts are the tokens that end what a model writes for llama.cpp, by their texts, whatever the keys name.
var endTexts = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>",
	"<|eom_id|>", "<EOT>", "_<EOT>", "<|end_of_text|>", "<end_of_utterance>", "<｜end▁of▁sentence｜>"}

// readTokenizer makes tokenizer.json and what other files say of tokens.
func (m *model) readTokenizer() error {
	f := m.file
	v := &vocabulary{file: f, ids: map[string]int32{}}
	kind, ok, err := f.Text(modelKey)
	if err != nil {
		return err
	}
	if !ok {
		return f.Bad(modelKey, "is missing: the file holds no vocabulary")
	}
	if err := v.read(kind == sentencePieceModel); err != nil {
		return err
	}
	var d *tokenizer.Description
	switch kind {
	case byteLevelModel:
		d, err = v.byteLevel()
	case sentencePieceModel:
		d, err = v.sentencePiece()
	default:
		return f.Bad(modelKey, "is %q, supported are %q (byte-level BPE) and %q (SentencePiece's BPE)", kind, byteLevelModel,
			sentencePieceModel)
	}
	if err != nil {
		return err
	}
	if err := v.template(d); err != nil {
		return err
	}
	if m.tokenizer, err = tokenizer.Build(*d); err != nil {
		return f.Bad(tokensKey, "%v", err)
	}
	m.summary.Vocabulary = m.tokenizer.VocabSize()
	if size := m.config["vocab_size"].(int); m.summary.Vocabulary > size {
		return f.Bad(tokensKey, "has %d tokens, but the token embedding has %d rows", m.summary.Vocabulary, size)
	}
	return m.describeTokens(v)
}

func (v *vocabulary) read(sentencePiece bool) (err error) {
	if v.tokens, err = v.file.Texts(tokensKey); err != nil {
		return err
	}
	if len(v.tokens) == 0 {
		return v.file.Bad(tokensKey, "is missing or empty")
	}
	if v.types, err = v.file.Ints(typesKey); err != nil {
		return err
	}
	if v.types != nil && len(v.types) != len(v.tokens) {
		return v.file.Bad(typesKey, "has %d elements for %d tokens", len(v.types), len(v.tokens))
	}
	for id, token := range v.tokens {
		if !utf8.ValidString(token) && v.kind(id) != tokenUnused {
			return v.file.Bad(tokensKey, "the token %d, %q, is not UTF-8", id, token)
		}
	}
	for _, n := range named {
		id, ok, err := v.file.Int(n.key)
		if err != nil {
			return err
		}
		if !ok && sentencePiece { // llama.cpp's numbers where the file has none
			id, ok = map[string]int64{"unk": 0, "bos": 1, "eos": 2}[n.role]
			ok = ok && id < int64(len(v.tokens)) && v.kind(int(id)) != tokenNormal
		}
		if !ok {
			continue
		}
		if id < 0 || id >= int64(len(v.tokens)) || v.tokens[id] == "" {
			return v.file.Bad(n.key, "is %d, but the vocabulary has %d tokens", id, len(v.tokens))
		}
		v.ids[n.role] = int32(id)
	}
	return nil
}

func (v *vocabulary) kind(id int) int64 {
	if v.types == nil {
		return tokenNormal
	}
	return v.types[id]
}

// pieces returns the vocabulary without unused tokens, and the tokens that are looked for in the text before anything
// else. Those are pieces too, as in the published tokenizers.
func (v *vocabulary) pieces() (pieces []string, added []tokenizer.AddedToken) {
	pieces = make([]string, len(v.tokens))
	name, _, _ := v.file.Text("general.name")
	strip := phi3Name.MatchString(name)
	role := numeric.Set(slices.Collect(maps.Values(v.ids)))
	for id, token := range v.tokens {
		kind := v.kind(id)
		if kind == tokenUnused || token == "" {
			continue
		}
		pieces[id] = token
		special := kind == tokenControl || kind == tokenUnknown || v.types == nil && role[int32(id)]
		if special || kind == tokenUserDefined {
			strips := strip && (special && !slices.Contains([]string{"<unk>", "<s>", "<|endoftext|>"}, token) || token == "</s>")
			added = append(added, tokenizer.AddedToken{ID: int32(id), Content: token, Special: special, RStrip: strips})
		}
	}
	return pieces, added
}

func (v *vocabulary) byteLevel() (*tokenizer.Description, error) {
	pre, ok, err := v.file.Text(preKey)
	if err != nil {
		return nil, err
	}
	names := numeric.Map(splits, func(s split) string { return s.pre })
	at := slices.Index(names, pre)
	slices.Sort(names)
	if names := strings.Join(names, ", "); !ok {
		return nil, v.file.Bad(preKey, "is missing: the file does not say how text is cut into words (supported: %s)", names)
	} else if at < 0 {
		return nil, v.file.Bad(preKey, "is %q, which is not supported (supported: %s)", pre, names)
	}
	split := splits[at]
	v.begin = split.begin
	lines, err := v.file.Texts(mergesKey)
	if err != nil {
		return nil, err
	}
	d := &tokenizer.Description{Split: split.split, NFC: split.nfc, IgnoreMerges: split.whole}
	for i, line := range lines {
		// A space inside a piece is written otherwise, so there is one; it is not the first character.
		left, right, ok := strings.Cut(line, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") || !utf8.ValidString(line) {
			return nil, v.file.Bad(mergesKey, "line %d is %q, must be two pieces with a space between", i+1, line)
		}
		d.Merges = append(d.Merges, [2]string{left, right})
	}
	d.Pieces, d.Added = v.pieces()
	return d, nil
}

// sentencePiece makes merges of the scores: two pieces that together are a piece merge, and the higher that one's
// score, the earlier.
func (v *vocabulary) sentencePiece() (*tokenizer.Description, error) {
	scores, err := v.file.Floats(scoresKey)
	if err != nil {
		return nil, err
	}
	if len(scores) != len(v.tokens) {
		return nil, v.file.Bad(scoresKey, "has %d elements for %d tokens", len(scores), len(v.tokens))
	}
	d := &tokenizer.Description{Prepend: true}
	v.begin = true
	prefix, ok, err := v.file.Bool(prefixKey)
	if err != nil {
		return nil, err
	}
	if ok {
		d.Prepend = prefix
	}
	if id, ok := v.ids["unk"]; ok {
		d.Unknown = v.tokens[id]
	}
	d.Pieces, d.Added = v.pieces()
	d.Merges = v.merges(scores)
	return d, nil
}

// mergeable are the ids of pieces that merges make or take. User-defined pieces are found in the text before anything is
// merged, where they are written as there: with spaces, not with ▁.
func (v *vocabulary) mergeable() map[string]int {
	ids := map[string]int{}
	for id, token := range v.tokens {
		if kind := v.kind(id); kind == tokenNormal || kind == tokenUserDefined && strings.Contains(token, "▁") {
			ids[token] = id
		}
	}
	return ids
}

func (v *vocabulary) merges(scores []float64) [][2]string {
	ids := v.mergeable()
	type merge struct {
		left, right, made int
	}
	var all []merge
	for made, token := range v.tokens {
		if id, ok := ids[token]; !ok || id != made {
			continue
		}
		first := len(all)
		for at := range token {
			if at == 0 {
				continue
			}
			left, ok := ids[token[:at]]
			right, also := ids[token[at:]]
			if ok && also {
				all = append(all, merge{left, right, made})
			}
		}
		slices.SortFunc(all[first:], func(a, b merge) int { return cmp.Or(a.left-b.left, a.right-b.right) })
	}
	length := func(id int) int { return utf8.RuneCountInString(v.tokens[id]) }
	slices.SortStableFunc(all, func(a, b merge) int {
		return cmp.Or(cmp.Compare(scores[b.made], scores[a.made]), length(b.left)-length(a.left), length(b.right)-length(a.right))
	})
	return numeric.Map(all, func(m merge) [2]string { return [2]string{v.tokens[m.left], v.tokens[m.right]} })
}

// template settles which tokens stand around a text.
func (v *vocabulary) template(d *tokenizer.Description) error {
	for _, t := range []struct {
		key, role string
		set       *bool
		ids       *[]int32
	}{
		{beginKey, "bos", &v.begin, &d.Before},
		{endKey, "eos", &v.end, &d.After},
	} {
		said, ok, err := v.file.Bool(t.key)
		if err != nil {
			return err
		}
		if ok {
			*t.set = said
		}
		id, has := v.ids[t.role]
		if *t.set && !has {
			if ok {
				return v.file.Bad(t.key, "is true, but the file does not say which token that is")
			}
			*t.set = false
		}
		if *t.set {
			*t.ids = []int32{id}
		}
	}
	return nil
}

// describeTokens fills in what tokenizer_config.json, generation_config.json and config.json say of tokens.
func (m *model) describeTokens(v *vocabulary) error {
	m.generation = map[string]any{}
	m.tokens = map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": v.begin,
		"add_eos_token": v.end, "clean_up_tokenization_spaces": false,
		"model_max_length": cmp.Or(m.config["max_position_embeddings"], m.config["n_positions"])}
	for _, n := range named {
		id, ok := v.ids[n.role]
		if !ok || n.config == "" {
			continue
		}
		m.tokens[n.config] = v.tokens[id]
		if n.role != "unk" {
			m.config[n.config+"_id"], m.generation[n.config+"_id"] = id, id
		}
	}
	var ends []int32
	for _, role := range endRoles {
		if id, ok := v.ids[role]; ok && !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	for _, token := range endTexts {
		if id := slices.Index(v.tokens, token); id >= 0 && !slices.Contains(ends, int32(id)) {
			ends = append(ends, int32(id))
		}
	}
	if len(ends) == 1 {
		m.generation["eos_token_id"] = ends[0]
	} else if len(ends) > 1 {
		m.generation["eos_token_id"] = ends
	}
	template, ok, err := m.file.Text(templateKey)
	if ok {
		m.tokens["chat_template"] = template
	}
	m.summary.Context = m.tokens["model_max_length"].(int)
	return err
}
