package godoc

import "testing"

// Without the domain, the generator's corpus lacks exactly the public files of D, in the same order; prompts and the
// sample for comparison stay.
func TestWithoutDomain(t *testing.T) {
	c := corpus(t)
	before := c.Public.Hash()
	p := c.WithoutDomain()
	if c.Public.Hash() != before {
		t.Error("the corpus itself was changed")
	}
	if len(p.Generator) == 0 || len(p.Generator) != len(c.Public.Generator)-len(c.Public.InDomain) {
		t.Errorf("%d texts are left of %d, %d are of the domain", len(p.Generator), len(c.Public.Generator),
			len(c.Public.InDomain))
	}
	rest := c.Public.Generator
	for _, text := range p.Generator {
		if inDomain(text.Source) {
			t.Fatalf("%s is of the domain", text.Source)
		}
		for rest[0] != text {
			if !inDomain(rest[0].Source) {
				t.Fatalf("%s was left out", rest[0].Source)
			}
			rest = rest[1:]
		}
		rest = rest[1:]
	}
	if len(p.Prompts) != len(c.Public.Prompts) || len(p.InDomain) != len(c.Public.InDomain) || p.Name == c.Public.Name {
		t.Errorf("%s: %d prompts, %d texts for comparison", p.Name, len(p.Prompts), len(p.InDomain))
	}
}
