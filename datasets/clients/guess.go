package clients

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"popri/datasets/records"
)

// Words of the names that columns usually have; a column of an earlier word goes first.
const (
	clientNames = "client user author speaker sender patient account customer member person participant who owner from name"
	dateNames   = "date created posted timestamp time when year"
	labelNames  = "label category class topic sentiment stars rating genre"
)

// Guess returns the options' columns with those that are not named: the text is the column with most words, client, date and
// label go by their names, and dates must be such. A format without columns has none. Columns that the file lacks are an error.
func Guess(path string, o ImportOptions) (c records.Columns, err error) {
	c = o.Columns
	names, err := records.Names(path, o.Dialect)
	if err != nil || names == nil {
		return c, err
	}
	most := 0 // words of the first texts
	for _, name := range names {
		words := 0
		cells, _ := first(path, o.Dialect, records.Columns{Text: name}) // none of a column of numbers or objects
		for _, r := range cells {
			words += len(strings.Fields(r.Text.Value))
		}
		if words > max(most, 2*len(cells)-1) && o.Columns.Text == "" {
			c.Text, most = name, words
		}
	}
	usual := func(given, words string) string {
		if given != "" {
			return given
		}
		for word := range strings.FieldsSeq(words) {
			if i := slices.IndexFunc(names, func(name string) bool {
				parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("_.- ", r) })
				return name != c.Text && slices.Contains(parts, word) &&
					!empty(path, o.Dialect, records.Columns{Client: name, Text: c.Text})
			}); i >= 0 {
				return names[i]
			}
		}
		return ""
	}
	c.Client, c.Date, c.Label = usual(c.Client, clientNames), usual(c.Date, dateNames), usual(c.Label, labelNames)
	if c.Text == "" || c.Client == "" {
		return c, fmt.Errorf("%s: no column has texts of several words (--text), or none is named like one of clients (--client): "+
			"it has %s", path, strings.Join(names, ", "))
	}
	cells, err := first(path, o.Dialect, c)
	if o.Columns.Date == "" && slices.ContainsFunc(cells, func(r records.Record) bool { _, ok := dateOf(r.Date.Value, ""); return !ok }) {
		c.Date, c.Unread = "", append(c.Unread, "date")
	}
	return c, err
}

// empty reports whether the column that is read as clients has no value in the first records.
func empty(path string, d records.Dialect, c records.Columns) bool {
	cells, err := first(path, d, c)
	return err == nil && !slices.ContainsFunc(cells, func(r records.Record) bool { return !r.Client.Null })
}

// first reads the first records of a file.
func first(path string, d records.Dialect, c records.Columns) (list []records.Record, err error) {
	enough := errors.New("enough")
	if err = records.Read(path, records.Options{Dialect: d, Columns: c}, func(r records.Record) error {
		if list = append(list, r); len(list) < 300 {
			return nil
		}
		return enough
	}); errors.Is(err, enough) {
		err = nil
	}
	return list, err
}
