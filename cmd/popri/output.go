package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"popri/internal/exactjson"
	"popri/internal/fault"
)

// emit prints a verb's result: as one JSON object with --json, else as text.
func (a *app) emit(result any, text func(w io.Writer)) error {
	if a.json {
		return json.NewEncoder(a.out).Encode(result)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// figure is a number of a result that may be infinite.
type figure = exactjson.Float

// checkedWriter keeps the first error of writing, which what prints line by line does not look at.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// usage marks an error as one that the user can correct. Verbs mark the errors that only they can classify, such as a
// missing input file; errors about the content of files are marked where they arise.
func usage(err error) error { return fault.User(err) }

// labelled puts a flag or the verb before an error's text, unless that begins with it. nil stays nil.
func labelled(name string, err error) error {
	if err != nil && !strings.HasPrefix(err.Error(), name+": ") {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}
