package sentence

import (
	"errors"
	"io/fs"
	"path/filepath"

	"popri/model/tokenizer"
)

// numberings are the kinds whose tokenizers SentencePiece's own file describes, and the ids that they give to its
// pieces.
var numberings = map[string]tokenizer.Numbering{kindT5: tokenizer.NumberingT5, kindXLMR: tokenizer.NumberingXLMR,
	kindCamemBERT: tokenizer.NumberingCamemBERT}

// readTokenizer reads tokenizer.json, or if there is none the model file of SentencePiece.
func (f *Folder) readTokenizer() error {
	var missing error
	if f.tokenizer, missing = tokenizer.Load(f.Dir); !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	numbering, known := numberings[f.Config.Kind]
	for _, name := range []string{"spiece.model", "sentencepiece.bpe.model"} {
		if known && f.exists(name) {
			var err error
			f.tokenizer, err = tokenizer.LoadSentencePiece(filepath.Join(f.Dir, name), numbering)
			return err
		}
	}
	return missing
}
