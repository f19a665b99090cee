package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// typed are the words of the command line that was given, without some flags and those that change the output alone.
func typed(cmd *cobra.Command, without ...string) []string {
	words := append(strings.Fields(cmd.CommandPath()), cmd.Flags().Args()...)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Name == "json" || f.Name == "quiet" || slices.Contains(without, f.Name):
			case f.Value.Type() == "bool" && v == "true":
				words = append(words, "--"+f.Name)
			case f.NoOptDefVal != "": // whose value, such as false, cannot be a word of its own
				words = append(words, "--"+f.Name+"="+v)
			default:
				words = append(words, "--"+f.Name, v)
			}
		}
	})
	return words
}
