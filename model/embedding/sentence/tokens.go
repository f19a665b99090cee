package sentence

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

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
	for _, name := range []string{"spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json"} {
		switch {
		case !f.exists(name):
		case known && strings.HasSuffix(name, ".model"):
			var err error
			f.tokenizer, err = tokenizer.LoadSentencePiece(filepath.Join(f.Dir, name), numbering)
			return err
		default:
			return fmt.Errorf("%w: the folder has %s only; in Python, transformers.AutoTokenizer.from_pretrained(%q)."+
				"save_pretrained(%[3]q) writes tokenizer.json next to it", missing, name, strings.TrimSuffix(f.Dir, "/"))
		}
	}
	return missing
}
