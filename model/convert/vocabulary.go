package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/model/chat"
	"popri/model/tokenizer"
)

// Files of a folder, besides tokenizer.json.
const configFile, tokensFile, generationFile = "config.json", "tokenizer_config.json", "generation_config.json"

// exported is the vocabulary of a folder.
type exported struct {
	vocabulary
	tokenizer.Description
	pre      string // tokenizer.ggml.pre; "" of SentencePiece's BPE
	strips   bool   // tokens take the white space behind them, as in Phi-3
	template string // of conversations
}

// vocabulary reads the tokenizer of the folder and refuses what llama.cpp's files cannot say of it.
func (c *codec) vocabulary() (v *exported, err error) {
	f := c.folder
	t, err := tokenizer.Load(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("model export: %w", err)
	} else if err != nil {
		return nil, err
	}
	v = &exported{vocabulary: vocabulary{ids: map[string]int32{}}}
	if v.Description, err = t.Description(); err != nil {
		return nil, f.bad(tokenizer.FileName, "a setting that cannot be exported", "%v", err)
	}
	refuse := func(key, format string, args ...any) error {
		if slices.Contains(c.accept, key) {
			return nil
		}
		return f.bad(tokenizer.FileName, key, format+", which llama.cpp does not do (where it does not matter, accept it with "+
			"--accept-key "+key+")", args...)
	}
	if v.Scheme != "" {
		err = refuse("prepend_scheme", "%q leaves out the space before some parts of a text", v.Scheme)
	}
	v.strips = v.likePhi3(t)
	for _, a := range v.Added {
		if a.LStrip {
			err = errors.Join(err, refuse("lstrip", "the token %q takes the white space before it", a.Content))
		}
		if a.RStrip && !v.strips {
			err = errors.Join(err, refuse("rstrip", "the token %q takes the white space behind it", a.Content))
		}
	}
	if err != nil {
		return nil, err
	}
	if v.Split != "" {
		i := slices.IndexFunc(splits, func(s split) bool {
			return s.split == v.Split && s.nfc == v.NFC && s.whole == v.IgnoreMerges
		})
		if i < 0 || v.Unknown != "" {
			return nil, f.bad(tokenizer.FileName, "pre_tokenizer", "with normalizer, ignore_merges %v and unk_token %q has no "+
				"counterpart in llama.cpp", v.IgnoreMerges, v.Unknown)
		}
		v.pre = splits[i].pre
	}
	var special map[string]string
	if v.template, _, special, err = chat.Source(f.Dir); err != nil {
		return nil, err
	}
	_, stated, err := tokenizer.SpecialTokens(f.Dir)
	if err != nil {
		return nil, err
	}
	for _, n := range []string{"pad_token", "unk_token"} { // a class's own tokens mean nothing in the file
		if stated[n] == "" {
			delete(special, n)
		}
	}
	return v, v.roles(c, t, special)
}

// likePhi3 reports whether tokens take the white space behind them exactly as llama.cpp has it of Phi-3.
func (v *exported) likePhi3(t *tokenizer.Tokenizer) bool {
	keep := []string{"<unk>", "<s>", "<|endoftext|>"}
	for _, name := range append(keep, "</s>") {
		if _, ok := t.ID(name); !ok {
			return false
		}
	}
	return !slices.ContainsFunc(v.Added, func(a tokenizer.AddedToken) bool { return a.RStrip == slices.Contains(keep, a.Content) })
}

// roles finds the tokens with a role, and whether a text begins and ends with one.
func (v *exported) roles(c *codec, t *tokenizer.Tokenizer, special map[string]string) error {
	f := c.folder
	for _, n := range named {
		name, ok := special[n.config]
		if id, is := t.ID(name); is {
			v.ids[n.role] = id
		} else if ok {
			return f.bad(tokensFile, n.config, "%q is not a token of %s", name, tokenizer.FileName)
		} else if id, is := f.Stated[n.config+"_id"].(float64); is && n.role != "eos" && id >= 0 {
			v.ids[n.role] = int32(id)
		}
	}
	if id, ok := t.ID(v.Unknown); ok {
		v.ids["unk"] = id
	}
	ends, _ := c.config["eos_token_id"].([]int32)
	if one, ok := c.config["eos_token_id"].(int32); ok {
		ends = []int32{one}
	}
	if eos, ok := v.ids["eos"]; ok {
		ends = slices.DeleteFunc(slices.Clone(ends), func(id int32) bool { return id == eos })
		ends = append([]int32{eos}, ends...)
	}
	if len(ends) == 0 || len(ends) > len(endRoles) {
		return f.bad(generationFile, "eos_token_id", "%d tokens end a text, must be 1 to %d", len(ends), len(endRoles))
	}
	for i, id := range ends {
		v.ids[endRoles[i]] = id
	}
	for _, around := range []struct {
		ids  []int32
		role string
		set  *bool
	}{{v.Before, "bos", &v.begin}, {v.After, "eos", &v.end}} {
		id, ok := v.ids[around.role]
		if *around.set = len(around.ids) > 0; *around.set && !(ok && slices.Equal(around.ids, []int32{id})) {
			return f.bad(tokenizer.FileName, "post_processor", "puts the tokens %v around a text, can be exported with %s_token alone",
				around.ids, around.role)
		}
	}
	return nil
}

// write writes the keys of the tokenizer, for an embedding with this number of rows.
func (v *exported) write(c *codec, rows int) error {
	if len(v.Pieces) > rows {
		return c.folder.bad(tokenizer.FileName, "model.vocab", "has %d tokens, but the token embedding has %d rows",
			len(v.Pieces), rows)
	}
	v.tokens = slices.Grow(v.Pieces, rows-len(v.Pieces))[:rows]
	v.types = slices.Repeat([]int64{tokenNormal}, rows)
	for _, a := range v.Added {
		v.tokens[a.ID], v.types[a.ID] = a.Content, tokenUserDefined
		if a.Special {
			v.types[a.ID] = tokenControl
		}
	}
	for id, piece := range v.tokens {
		switch {
		case piece == "":
			v.tokens[id], v.types[id] = fmt.Sprintf("[PAD%d]", id), tokenUnused
		case v.pre == "" && piece == v.Unknown:
			v.types[id] = tokenUnknown
		case v.pre == "" && len(piece) == len("<0x00>") && strings.HasPrefix(piece, "<0x"):
			v.types[id] = tokenByte
		}
	}
	c.state(tokensKey, v.tokens)
	if v.pre == "" {
		scores, err := v.scores(c.folder)
		if err != nil {
			return err
		}
		c.state(modelKey, sentencePieceModel)
		c.state(scoresKey, numeric.Convert[float32](scores))
		c.state(prefixKey, v.Prepend)
	} else {
		lines := numeric.Map(v.Merges, func(m [2]string) string { return m[0] + " " + m[1] })
		c.state(modelKey, byteLevelModel)
		c.state(preKey, v.pre)
		c.state(mergesKey, lines)
	}
	c.state(typesKey, numeric.Convert[int32](v.types))
	for _, n := range named {
		if id, ok := v.ids[n.role]; ok {
			c.state(n.key, uint32(id))
		}
	}
	c.state(beginKey, v.begin)
	c.state(endKey, v.end)
	if v.template != "" {
		c.state(templateKey, v.template)
	}
	return nil
}

// scores are such that SentencePiece, which makes the piece with the highest score first, makes the tokenizer's merges in
// their order. Pieces whose merges stand between one another's have the same score. SentencePiece merges any two pieces
// that are together a piece, so a tokenizer without one of these merges is refused.
func (v *exported) scores(f *Folder) ([]float64, error) {
	ids, known := v.mergeable(), map[[2]string]bool{}
	last := map[int]int{} // merge of each piece that is made
	for i, m := range v.Merges {
		_, left := ids[m[0]]
		_, right := ids[m[1]]
		if made, ok := ids[m[0]+m[1]]; ok && left && right {
			last[made], known[m] = i, true
		}
	}
	scores := make([]float64, len(v.tokens))
	class, end := 0.0, -1
	for i, m := range v.Merges {
		if !known[m] {
			continue
		}
		made := ids[m[0]+m[1]]
		if i > end {
			class--
		}
		if scores[made] == 0 {
			scores[made], end = class, max(end, last[made])
		}
	}
	for _, m := range v.merges(scores) {
		if !known[m] {
			return nil, f.bad(tokenizer.FileName, "model.merges", "lacks %q, which llama.cpp's SentencePiece would merge", m[:])
		}
	}
	return scores, nil
}
