package policy

import (
	"path/filepath"

	"popri/datasets"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/target"
)

// form is what the release tells of the form of clients' texts, as stored.
type form struct {
	Style    target.Style      `json:"style"`        // in which quotes and product are written
	Least    int               `json:"least_tokens"` // of a sample; 0 if the release tells none
	Measures []target.Measured `json:"measures"`
}

// writeForm stores what the release tells of the form of the clients' texts, and follows it.
func (f *Single) writeForm(r *rounds.Round, s rounds.Stage) error {
	p := f.policy
	public := datasets.Strings(f.target.Texts[:min(len(f.target.Texts), countedTexts)])
	found := form{f.target.Style, f.target.LeastWords() * p.tokens(public) / max(1, datasets.Words(f.target.Texts[:len(public)])), f.target.Form}
	s.Log("form", found)
	if words := f.target.FormWords(); words != "" {
		s.Say(words)
	}
	if err := atomicfile.WriteJSON(filepath.Join(r.Dir, rundir.Form), found); err != nil {
		return err
	}
	_, err := p.form()
	return err
}

// countedTexts is the number of public texts that tell how many tokens a word has.
const countedTexts = 2000

// tokens counts the generator's tokens of texts.
func (p *Policy) tokens(texts []string) (n int) {
	for _, t := range texts {
		n += len(p.Tokenizer.Encode(t))
	}
	return n
}

// form is what round 1 has stored of the form of the clients' texts, nothing without scoring.form. From here on, samples are no
// shorter than nearly all of these texts.
func (p *Policy) form() (found form, err error) {
	if p.Config.Scoring.Form == 0 {
		return found, nil
	}
	err = atomicfile.ReadJSON(filepath.Join(rundir.Round(p.Dir, 1), rundir.Form), &found)
	p.Writer.Config.MinNewTokens = max(p.Config.Generate.MinNewTokens, min(found.Least, p.Config.Generate.MaxNewTokens-roomToEnd))
	return found, err
}

// roomToEnd is left for a sample's end where clients' texts are as long as generate.max_new_tokens.
const roomToEnd = 8
