package downstream

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"popri/model/lm"
	"popri/model/tokenizer"
)

// Encoder turns texts into rows of one of the rowForms.
type Encoder struct {
	Tokenizer *tokenizer.Tokenizer
	Rows      string // Line: separator, text and a line's end, as the shipped models were trained; Document: begin, text, end
	Begin     int32  // of Document
	End       int32  // of Document, and the separator of Line
	Length    int    // tokens to which rows are cut
}

// OpenEncoder loads the tokenizer of a model's folder. rows and length are as in [Options].
func OpenEncoder(dir, rows string, length int) (Encoder, error) {
	if rows != Line && rows != Document {
		return Encoder{}, fmt.Errorf("downstream: rows of the form %.80q, want %q or %q", rows, Line, Document)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return Encoder{}, fmt.Errorf("downstream: %w", err)
	}
	end, ok := tok.EOS()
	if !ok {
		return Encoder{}, fmt.Errorf("downstream: the tokenizer of %s has no end-of-text token", dir)
	}
	// Models that were pretrained with GPT-2's separator saw their texts begin with it, and begin a chat's turn with
	// another token: SmolLM2-Instruct needs 4.03 nats for a token of speeches after it and 4.11 after its own <|im_start|>.
	begin, ok := tok.ID("<|endoftext|>")
	if ok = ok && tok.IsSpecial(begin); !ok {
		begin, ok = tok.BOS()
	}
	if !ok {
		begin = end
	}
	return Encoder{Tokenizer: tok, Rows: rows, Begin: begin, End: end, Length: length}, nil
}

// Encode returns a row for each text.
func (e Encoder) Encode(texts []string) []lm.Row {
	rows := make([]lm.Row, 0, len(texts))
	for _, t := range texts {
		row, _ := e.row(t)
		rows = append(rows, row)
	}
	return rows
}

// After returns rows as Encode, with the tokens of a line before each text. They do not count in the loss, and lengthen the row.
func (e Encoder) After(lines, texts []string) []lm.Row {
	rows := e.Encode(texts)
	for i, r := range rows {
		rows[i] = lm.NewRow(append(r.Tokens[:1:1], e.Tokenizer.Encode(lines[i])...), r.Tokens[1:])
	}
	return rows
}

// row returns the row of a text, and how many of its characters (Unicode code points) stand in it.
func (e Encoder) row(text string) (row lm.Row, characters int) {
	tokens, characters := e.unended(text)
	tokens = append(tokens, e.ending()...)
	return lm.Row{Tokens: tokens[:min(len(tokens), e.Length)]}, characters
}

// unended is row without what ends the row.
func (e Encoder) unended(text string) (tokens []int32, characters int) {
	first := e.Begin
	if e.Rows == Line {
		first = e.End
	}
	ids := e.Tokenizer.Encode(text)
	if room := e.Length - 1; len(ids) > room {
		ids = ids[:room]
		text = e.Tokenizer.Decode(ids, true)
	}
	return slices.Concat([]int32{first}, ids), utf8.RuneCountInString(text)
}

// ending is what ends a row.
func (e Encoder) ending() []int32 {
	if e.Rows == Line {
		return e.Tokenizer.Encode("\n")
	}
	return []int32{e.End}
}
