package datacard

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"

	"popri/accountant/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/quote"
	"popri/internal/rundir"
)

//go:embed cards.tmpl
var cardSource string

// cards are the templates of the cards of data sets and models.
var cards = template.Must(template.New("cards").Funcs(template.FuncMap{
	"count": quote.Count, "trimSuffix": strings.TrimSuffix,
	"yaml": func(text string) (string, error) {
		b, err := yaml.Marshal(text)
		return strings.TrimSpace(string(b)), err
	},
}).Parse(cardSource))

// card is the input of a template.
type card struct {
	Options
	Result
	table
	Facts    guarantee.Facts
	File     string // of the texts
	Files    []hashed
	Settings string // of the run
}

// hashed is a file of the run.
type hashed struct{ Name, SHA256 string }

// write writes the card of a kind into the folder out, with the hashes of the run's files as far as they are there.
func (c card) write(kind, run, out string, files ...string) error {
	c.File = Data
	for _, name := range append(files, rundir.Synthetic, rundir.Config, rundir.Ledger, rundir.Inputs) {
		if !rundir.Has(run, name) {
			continue
		}
		hash, err := atomicfile.SHA256(filepath.Join(run, name))
		if err != nil {
			return err
		}
		c.Files = append(c.Files, hashed{filepath.ToSlash(name), hash})
	}
	settings, err := os.ReadFile(filepath.Join(run, rundir.Config))
	if err != nil {
		return err
	}
	c.Settings = string(bytes.TrimSpace(settings))
	return atomicfile.Write(filepath.Join(out, Card), func(w io.Writer) error { return cards.ExecuteTemplate(w, kind, c) })
}

// SizeCategory is the hub's name of a range of sizes.
func (r Result) SizeCategory() string {
	below, name := 1000, "n<1K"
	for _, next := range []string{"1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M"} {
		if r.Texts >= below {
			name = next
		}
		below *= 10
	}
	return name
}

// Origins says where the rows come from.
func (r Result) Origins() string {
	var parts []string
	if r.Written > 0 {
		parts = append(parts, fmt.Sprintf("%s that a language model wrote", quote.Count(r.Written, "text", "texts")))
	}
	if r.Public > 0 {
		parts = append(parts, fmt.Sprintf("%s of public texts, word for word, capitals aside, which the clients' "+
			"noised answers chose", quote.Count(r.Public, "copy", "copies")))
	}
	return strings.Join(parts, " and ")
}
