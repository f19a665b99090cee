package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"popri/internal/quote"
)

// sentencePiece is what a tokenizer needs of a model file of SentencePiece, the message ModelProto of its
// sentencepiece_model.proto (Kudo and Richardson, arXiv 1808.06226).
type sentencePiece struct {
	pieces   []scoredPiece
	kind     int32 // 1 is the unigram model
	unknown  int32
	charsmap []byte // of the normalizer; empty: none

	byteFallback, suffix      bool // bytes for what is unknown; a space belongs to the word before it
	prefix, stripSpaces, mark bool // a space before the text; runs of spaces are one; ▁ for a space
}

// scoredPiece is a piece with its log-probability.
type scoredPiece struct {
	text  string
	score float32
	kind  int32
}

// The kinds of pieces that are not found in a text as others are.
const (
	pieceUnknown = 2
	pieceControl = 3
	pieceUser    = 4 // found in the text before anything else
)

// readSentencePiece reads the message. Fields that are not named here concern training, tests and decoding.
func readSentencePiece(content []byte) (*sentencePiece, error) {
	m := &sentencePiece{kind: 1, prefix: true, stripSpaces: true, mark: true} // the defaults of the message
	err := readMessage(content, "", map[protowire.Number]target{
		1: {"pieces", func(raw []byte) error {
			name := fmt.Sprintf("pieces[%d].", len(m.pieces))
			p := scoredPiece{kind: 1}
			if err := readMessage(raw, name, map[protowire.Number]target{
				1: {"piece", &p.text}, 2: {"score", &p.score}, 3: {"type", &p.kind},
			}); err != nil {
				return err
			}
			switch {
			case len(m.pieces) >= maxID:
				return fmt.Errorf("more than the %d pieces that are allowed", maxID)
			case p.text == "" || !utf8.ValidString(p.text):
				return quote.Errorf("%spiece is %q, not a text", quote.Raw(name), p.text)
			case math.IsNaN(float64(p.score)) || math.IsInf(float64(p.score), 0):
				return fmt.Errorf("%sscore is %g", name, p.score)
			}
			m.pieces = append(m.pieces, p)
			return nil
		}},
		2: {"trainer_spec", func(raw []byte) error {
			return readMessage(raw, "trainer_spec.", map[protowire.Number]target{3: {"model_type", &m.kind},
				24: {"treat_whitespace_as_suffix", &m.suffix}, 35: {"byte_fallback", &m.byteFallback}, 40: {"unk_id",
					&m.unknown}})
		}},
		3: {"normalizer_spec", func(raw []byte) error {
			return readMessage(raw, "normalizer_spec.",
				map[protowire.Number]target{2: {"precompiled_charsmap", &m.charsmap},
					3: {"add_dummy_prefix", &m.prefix}, 4: {"remove_extra_whitespaces", &m.stripSpaces},
					5: {"escape_whitespaces", &m.mark}})
		}},
	})
	if err != nil {
		return nil, err
	}
	return m, m.check()
}

// check refuses what the unigram tokenizer of tokenizer.json does not do.
func (m *sentencePiece) check() error {
	if m.kind != 1 {
		names := map[int32]string{2: "BPE", 3: "WORD", 4: "CHAR"}
		return quote.Errorf("trainer_spec.model_type is %d %s, which is not supported (supported: 1 UNIGRAM)", m.kind,
			quote.Raw(names[m.kind]))
	}
	if len(m.pieces) == 0 {
		return errors.New("it has no pieces: it is no model of SentencePiece")
	}
	if m.unknown < 0 || int(m.unknown) >= len(m.pieces) || m.pieces[m.unknown].kind != pieceUnknown {
		return fmt.Errorf("trainer_spec.unk_id is %d, which is not the unknown piece", m.unknown)
	}
	for _, setting := range []struct {
		name      string
		is, wants bool
	}{
		{"trainer_spec.byte_fallback", m.byteFallback, false},
		{"trainer_spec.treat_whitespace_as_suffix", m.suffix, false},
		{"normalizer_spec.add_dummy_prefix", m.prefix, true},
		{"normalizer_spec.remove_extra_whitespaces", m.stripSpaces, true},
		{"normalizer_spec.escape_whitespaces", m.mark, true},
	} {
		if setting.is != setting.wants {
			return fmt.Errorf("%s %v is not supported here (supported: %v)", setting.name, setting.is, setting.wants)
		}
	}
	return nil
}

// target is a field of a message and where its value goes: *string, *[]byte, *float32, *int32, *bool, or a function
// that reads the message inside.
type target struct {
	name string
	into any
}

// readMessage reads a message of protocol buffers: tags, each with a field's number and the form of the value after it.
// Fields that are not named are passed over. Errors begin with the message's name.
func readMessage(content []byte, name string, fields map[protowire.Number]target) error {
	for at := 0; at < len(content); {
		number, form, n := protowire.ConsumeTag(content[at:])
		if n < 0 {
			return fmt.Errorf("%sbyte %d is no field of a protocol buffer: %w", name, at, protowire.ParseError(n))
		}
		value := content[at+n:]
		size := protowire.ConsumeFieldValue(number, form, value)
		if size < 0 {
			return fmt.Errorf("%sfield %d at byte %d: %w", name, number, at, protowire.ParseError(size))
		}
		at += n + size
		if f, ok := fields[number]; ok {
			if err := f.read(name, form, value[:size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// read stores a value, which is whole.
func (f target) read(message string, form protowire.Type, value []byte) error {
	want := protowire.VarintType
	switch f.into.(type) {
	case *string, *[]byte, func([]byte) error:
		want = protowire.BytesType
	case *float32:
		want = protowire.Fixed32Type
	}
	if form != want {
		return fmt.Errorf("%s%s is stored in the form %d of protocol buffers, not in %d", message, f.name, form, want)
	}
	switch into := f.into.(type) {
	case *float32:
		bits, _ := protowire.ConsumeFixed32(value)
		*into = math.Float32frombits(bits)
	case *int32:
		number, _ := protowire.ConsumeVarint(value)
		*into = int32(number) // a negative one is stored as 64 bits
	case *bool:
		number, _ := protowire.ConsumeVarint(value)
		*into = number != 0
	default:
		inner, _ := protowire.ConsumeBytes(value)
		switch into := into.(type) {
		case *string:
			*into = string(inner)
		case *[]byte:
			*into = inner
		case func([]byte) error:
			return into(inner)
		}
	}
	return nil
}
