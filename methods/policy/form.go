package policy

import (
	"path/filepath"

	"popri/datasets"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/target"
)

// Form is what the release says of the form of clients' texts, as stored.
type Form struct {
	target.Form
	LeastTokens int `json:"least_tokens"` // LeastWords in tokens of the generator
}

// readForm stores what the release says of the form of the clients' texts, and follows it.
func (f *Single) readForm(r *rounds.Round, s rounds.Stage) error {
	found, public := Form{Form: f.target.Form}, f.target.Texts[:min(len(f.target.Texts), countedTexts)]
	tokens := numeric.Sum(public, func(t datasets.Text) int { return len(f.policy.Tokenizer.Encode(t.Text)) })
	found.LeastTokens = found.LeastWords * tokens / max(1, datasets.Words(public))
	s.Log("form", found)
	if words := found.String(); words != "" {
		s.Say(words)
	}
	if err := atomicfile.WriteJSON(filepath.Join(r.Dir, rundir.Form), found); err != nil {
		return err
	}
	_, err := f.policy.form()
	return err
}

// countedTexts is the number of public texts that tell how many tokens a word has.
const countedTexts = 2000

// form is what round 1 has stored of the form of the clients' texts, nothing without scoring.form. From here on,
// samples are no shorter than nearly all of these texts, and have line breaks if these have.
func (p *Policy) form() (found Form, err error) {
	if p.Config.Scoring.Form == 0 {
		return found, nil
	}
	err = atomicfile.ReadJSON(filepath.Join(rundir.Round(p.Dir, 1), rundir.Form), &found)
	p.Prompter.Lines = found.Lines
	p.Writer.Config.MinNewTokens = max(p.Config.Generate.MinNewTokens,
		min(found.LeastTokens, p.Config.Generate.MaxNewTokens-roomToEnd))
	return found, err
}

// roomToEnd is left for a sample's end where clients' texts are as long as generate.max_new_tokens.
const roomToEnd = 8
