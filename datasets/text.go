package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"

	"popri/internal/numeric"
)

// Text is one piece of public prose.
type Text struct {
	Text   string // single spaces, no line breaks, never empty
	Source string // where it comes from, such as "net/http/server.go"; may be empty
	Label  string // its class; empty unless it was read by [ReadLabelled]
	Kind   string // what a model was asked for when it wrote the text, such as "political speeches"; empty for public text
}

// Public is the text that everybody may see. Its parts may share texts.
type Public struct {
	Name      string
	Prompts   []Text // Ω: the texts that prompts quote, and that the small model knows before any private data
	Generator []Text // W: all texts that the generator was trained on, in source order, related texts side by side
	InDomain  []Text // a public sample of the clients' domain, for comparison; may be empty
}

// Hash identifies the texts, their labels and their order: hex SHA-256.
func (p *Public) Hash() string {
	h := sha256.New()
	for _, part := range [][]Text{p.Prompts, p.Generator, p.InDomain} {
		for _, t := range part {
			io.WriteString(h, t.Source)
			h.Write([]byte{0})
			io.WriteString(h, t.Text)
			h.Write([]byte{0})
			if t.Label != "" {
				io.WriteString(h, t.Label)
				h.Write([]byte{2})
			}
		}
		h.Write([]byte{1})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Words counts the words of texts, as separated by white space.
func Words(texts []Text) int {
	n := 0
	for _, t := range texts {
		n += len(strings.Fields(t.Text))
	}
	return n
}

// Labels returns the texts' labels; nil if no text has one.
func Labels(texts []Text) []string {
	var out []string
	for i, t := range texts {
		if t.Label == "" {
			continue
		}
		if out == nil {
			out = make([]string, len(texts))
		}
		out[i] = t.Label
	}
	return out
}

// Strings returns the texts without their sources.
func Strings(texts []Text) []string {
	return numeric.Map(texts, func(t Text) string { return t.Text })
}

// Classes are the different labels of the texts that prompts quote, sorted.
func (p Public) Classes() []string { return Classes(Labels(p.Prompts)...) }

// Classes returns the different labels, sorted.
func Classes(labels ...string) []string {
	set := map[string]bool{}
	for _, l := range labels {
		set[l] = true
	}
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}
