package main

import (
	"fmt"
	"strings"

	"popri/internal/fault"
)

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
