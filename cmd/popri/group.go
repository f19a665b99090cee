package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// group makes a verb that only contains other verbs. Called alone or with an unknown word, it lists them.
func group(use, short, example string, verbs ...*cobra.Command) *cobra.Command {
	var names []string
	for _, v := range verbs {
		names = append(names, v.Name())
	}
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(fmt.Errorf("name one of %s", strings.Join(names, ", ")))
			}
			return usage(fmt.Errorf("%q is not one of %s", args[0], strings.Join(names, ", ")))
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}
