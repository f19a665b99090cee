package clients

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"popri/datasets/records"
)

// Words of the names that columns usually have; a column of an earlier word goes first.
var (
	clientNames = []string{"client", "user", "author", "speaker", "sender", "patient", "account", "customer", "member", "person",
		"participant", "who", "owner", "from", "name"}
	dateNames  = []string{"date", "created", "posted", "timestamp", "time", "when", "year"}
	labelNames = []string{"label", "category", "class", "topic", "sentiment", "stars", "rating", "genre"}
)

// Guess returns the options' columns with those that are not named: the text is the column with most words, client, date and
// label go by their names, and dates must be such. A format without columns has none. Columns that the file lacks are an error.
func Guess(path string, o ImportOptions) (c records.Columns, err error) {
	c = o.Columns
	names, err := records.Names(path, o.Dialect)
	if err != nil || names == nil {
		return c, err
	}
	if c.Text == "" && !slices.Contains(names, "text") && !slices.Contains(names, "texts") {
		most := 2.0 // words of a text
		for _, name := range names {
			words := 0
			cells, _ := first(path, o.Dialect, records.Columns{Text: name}) // a column of numbers or objects is no text
			for _, r := range cells {
				words += len(strings.Fields(r.Text.Value))
			}
			if mean := float64(words) / float64(max(1, len(cells))); mean > most {
				c.Text, most = name, mean
			}
		}
		if c.Text == "" {
			return c, fmt.Errorf("%s: no column has texts of several words: --text names one of %s", path, strings.Join(names, ", "))
		}
	}
	usual := func(words []string) string {
		for _, word := range words {
			for _, name := range names {
				parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("_.- ", r) })
				if name != c.Text && slices.Contains(parts, word) {
					return name
				}
			}
		}
		return ""
	}
	if !o.ClientPerText {
		if c.Client = cmp.Or(c.Client, usual(clientNames)); c.Client == "" {
			return c, fmt.Errorf("%s: no column is named like one of clients: --client names one of %s, or --client-per-text "+
				"makes a client of each text", path, strings.Join(names, ", "))
		}
	}
	c.Label = cmp.Or(c.Label, usual(labelNames))
	given := c.Date
	c.Date = cmp.Or(c.Date, usual(dateNames))
	cells, err := first(path, o.Dialect, c)
	if given == "" && slices.ContainsFunc(cells, func(r records.Record) bool { _, ok := dateOf(r.Date.Value, ""); return !ok }) {
		c.Date = ""
	}
	return c, err
}

// first reads the first records of a file.
func first(path string, d records.Dialect, c records.Columns) (list []records.Record, err error) {
	enough := errors.New("enough")
	err = records.Read(path, records.Options{Dialect: d, Columns: c}, func(r records.Record) error {
		if list = append(list, r); len(list) == 300 {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return list, err
}
