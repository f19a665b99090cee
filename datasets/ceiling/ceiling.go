// Package ceiling is the one way by which private text reaches a method without noise. The key privacy.unsafe_ceiling
// asks for it by name: a run then shows what the same generator and training reach on the train clients' own texts. Its
// product is outside of every guarantee. internal/archtest lists the packages that may import this one.
package ceiling

// Texts are the train clients' texts. nil stands for a run without a ceiling.
type Texts struct{ texts []string }

// Of hands texts over.
func Of(texts []string) *Texts { return &Texts{texts} }

// Unprotected returns the texts as they are.
func (t *Texts) Unprotected() []string { return t.texts }
