package tokenizer

import (
	"fmt"
	"strings"

	"popri/internal/quote"
)

// Byte-level vocabularies write every byte as one printable character: bytes that are printable in Latin-1 as
// themselves, the other 68 from U+0100 on. So a space is Ġ and a line feed Ċ.
var (
	runeOfByte [256]rune
	byteOfRune = map[rune]byte{}
)

func init() {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r && r <= 0xff) {
			r = next
			next++
		}
		runeOfByte[b] = r
		byteOfRune[r] = byte(b)
	}
}

// pieceOfBytes writes bytes as a byte-level vocabulary does.
func pieceOfBytes(b string) string {
	var out strings.Builder
	for i := range len(b) {
		out.WriteRune(runeOfByte[b[i]])
	}
	return out.String()
}

// bytesOfPiece is the inverse. A piece with any other character stands for its own UTF-8 text, as in the reference.
func bytesOfPiece(piece string) string {
	out := make([]byte, 0, len(piece))
	for _, r := range piece {
		b, ok := byteOfRune[r]
		if !ok {
			return piece
		}
		out = append(out, b)
	}
	return string(out)
}

// byteLevel is the byte-level BPE model.
type byteLevel struct {
	name         Split
	split        splitter
	prefix       bool       // a space is put before each part of a text that begins with none
	byteID       [256]int32 // noID if the vocabulary lacks the byte
	lacks        bool       // some byte is missing
	unknown      int32      // replaces a byte that is missing; noID drops such bytes
	fuse         bool       // one unknown token replaces successive missing bytes
	merges       merges
	ignoreMerges map[string]int32 // the vocabulary by bytes if whole words are looked up before merging, else nil
	cache        wordCache
}

// noID marks a byte or a token that the vocabulary lacks.
const noID int32 = -1

// newByteLevel checks that merges only make pieces of the vocabulary, and that no merge is missing. A vocabulary may
// lack single bytes, as SmolLM2's lacks control characters: texts with them lose these bytes, or get the unknown token
// if the settings name one, as in the reference. Without an unknown token it must have the space and the letters a to
// z: most texts would lose parts.
func newByteLevel(v *vocabulary, settings *bpeSettings, name Split) (*byteLevel, error) {
	m := &byteLevel{name: name, split: splits[name].cut, unknown: noID, fuse: settings.FuseUnk}
	for b := range m.byteID {
		id, ok := v.model[string(runeOfByte[b])]
		if !ok {
			id, m.lacks = noID, true
		}
		m.byteID[b] = id
	}
	if err := m.takeUnknown(v, settings); err != nil {
		return nil, err
	}
	pairs, made, err := newMerges(v, settings.Merges)
	if err != nil {
		return nil, err
	}
	m.merges = pairs
	if !settings.IgnoreMerges {
		if err := v.checkMade(made); err != nil {
			return nil, err
		}
	} else {
		m.ignoreMerges = make(map[string]int32, len(v.model))
		for piece, id := range v.model {
			if b := bytesOfPiece(piece); pieceOfBytes(b) == piece {
				m.ignoreMerges[b] = id
			}
		}
	}
	for _, b := range " abcdefghijklmnopqrstuvwxyz" {
		if m.unknown == noID && m.byteID[b] == noID {
			return nil, fmt.Errorf("model.vocab lacks %q and names no unknown token: texts would lose it without a word", b)
		}
	}
	return m, nil
}

func (m *byteLevel) encode(ids []int32, text string, _ bool) []int32 {
	m.words(text, func(word string) { ids = m.encodeWord(ids, word) })
	return ids
}

// takeUnknown finds the token that replaces bytes that the vocabulary lacks. It must not be part of a merge, because
// the bytes of a piece would then be unknown.
func (m *byteLevel) takeUnknown(v *vocabulary, settings *bpeSettings) error {
	if !m.lacks || settings.UnkToken == nil || *settings.UnkToken == "" {
		return nil
	}
	name := *settings.UnkToken
	id, ok := v.model[name]
	if !ok {
		return quote.Errorf("model.unk_token %q is not in model.vocab", name)
	}
	for i, pair := range settings.Merges {
		if pair[0] == name || pair[1] == name {
			return quote.Errorf("model.merges line %d merges model.unk_token %q, which is not supported", i+1, name)
		}
	}
	m.unknown = id
	return nil
}

// spell appends the ids of a word's bytes. Bytes that the vocabulary lacks are dropped, or are the unknown token: one
// for each, or fused for each run.
func (m *byteLevel) spell(ids []int32, word string) []int32 {
	fused := false // the last id is the unknown token, for the byte before
	for i := range len(word) {
		id := m.byteID[word[i]]
		lacking := id == noID
		if lacking {
			id = m.unknown
		}
		if id != noID && !(lacking && fused) {
			ids = append(ids, id)
		}
		fused = lacking && m.fuse && m.unknown != noID
	}
	return ids
}

func (m *byteLevel) words(text string, visit func(string)) {
	if m.prefix && text != "" && text[0] != ' ' {
		text = " " + text
	}
	for len(text) > 0 {
		n := m.split(text)
		visit(text[:n])
		text = text[n:]
	}
}

func (m *byteLevel) encodeWord(ids []int32, word string) []int32 {
	if len(word) == 1 && m.byteID[word[0]] != noID {
		return append(ids, m.byteID[word[0]])
	}
	if id, ok := m.ignoreMerges[word]; ok {
		return append(ids, id)
	}
	return m.cache.encode(ids, word, m.pieces)
}

// pieces appends the pieces of a word.
func (m *byteLevel) pieces(ids []int32, word string) []int32 {
	start := len(ids)
	ids = m.spell(ids, word)
	return ids[:start+m.merges.apply(ids[start:])]
}
