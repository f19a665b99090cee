package main

import (
	"fmt"

	"popri/internal/fault"
)

// usage marks an error as one that the user can correct. Verbs mark the errors that only they can classify, such as a
// missing input file; errors about the content of files are marked where they arise.
func usage(err error) error { return fault.User(err) }

// labelled puts a flag or the verb before the text of an error. nil stays nil.
func labelled(name string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}
