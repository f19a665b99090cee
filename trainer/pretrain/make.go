package pretrain

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tokenizer"
	"popri/trainer"
)

// provenanceFile has a model's [Provenance].
const provenanceFile = "provenance.json"

// Provenance is written next to the weights and says how they were made.
type Provenance struct {
	Command      string  `json:"command"`
	Commit       string  `json:"program_commit"`
	Corpus       string  `json:"corpus"`
	CorpusHash   string  `json:"corpus_sha256"`
	GoVersion    string  `json:"go_version"`
	Seed         uint64  `json:"seed"`
	Steps        int     `json:"steps"`
	Epochs       int     `json:"epochs"`
	Tokens       int     `json:"corpus_tokens"`
	Loss         float64 `json:"training_loss"`
	HeldLoss     float64 `json:"held_out_loss"`
	HeldAccuracy float64 `json:"held_out_accuracy"`
	Parameters   int64   `json:"parameters"`
	CPU          string  `json:"compute"`
}

// ReadProvenance returns what a model's folder says of its training; ok is false where it says nothing.
func ReadProvenance(dir string) (p Provenance, ok bool) {
	if atomicfile.ReadJSON(filepath.Join(dir, provenanceFile), &p) != nil {
		return Provenance{}, false
	}
	return p, true
}

// Make trains a model on the corpus and writes it to the folder out, with its tokenizer and its provenance, at the end
// and every SaveEvery steps. An interrupted training continues with the file state. p holds what is known before the
// training; the rest is filled in and all is returned.
func Make(ctx context.Context, out, state string, c *Corpus, tok *tokenizer.Tokenizer, o Options, p Provenance,
	each func(Stats)) (Provenance, error) {
	p.Seed, p.Tokens = o.Seed, c.Tokens()
	write := func(m *lm.Model, st Stats) error {
		p.Steps, p.Epochs, p.Parameters = st.Step, st.Epoch, m.Parameters()
		p.Loss, p.HeldLoss, p.HeldAccuracy = st.Loss, st.HeldLoss, st.HeldAccuracy
		if err := m.Save(out, safetensors.F16); err != nil {
			return err
		}
		if err := tok.Save(filepath.Join(out, tokenizer.FileName)); err != nil {
			return err
		}
		return atomicfile.WriteJSON(filepath.Join(out, provenanceFile), p)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return p, fault.User(err)
	}
	o.Save = nil
	kept := trainer.Checkpoint{Path: state, Key: fmt.Sprintf("%s %+v", p.CorpusHash, o), Every: time.Minute}
	o.Save = write
	m, st, err := run(ctx, c, tok, o, kept, each)
	if err != nil {
		return p, err
	}
	defer m.Free()
	err = cmp.Or(write(m, st), kept.Remove())
	return p, err
}
