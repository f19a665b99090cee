package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/study/grid"
)

// ownFlag lets a run on the user's clients take public text and models of the embedded default.
type ownFlag struct{ allow bool }

func (f *ownFlag) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.allow, "allow-embedded", false,
		"take the embedded public text or models for clients of your own, which is refused otherwise")
}

// check refuses public text and models of the embedded default for the user's clients, before anything is read, trained
// or charged. The error has the command with what is missing.
func (f ownFlag) check(cmd *cobra.Command, c configs.Config) error {
	keys := c.Borrowed()
	if f.allow || len(keys) == 0 {
		return nil
	}
	var have []string
	instead := typed(cmd)
	for _, key := range keys {
		value, _ := c.Get(key)
		have = append(have, fmt.Sprintf("%s is %v", key, value))
		right := configs.Trained
		if key == "data.public" {
			right = "FILE"
		}
		instead = append(instead, "--set", key+"="+right)
	}
	return usage(fmt.Errorf("data.private is %s, but %s: that is text of Go's source code, or learnt from it alone, "+
		"and a run would spend ε on clients who write something else. With public text of your own, and models that "+
		"are trained on it first (folders of models do as well):\n  %s\n--allow-embedded takes what is embedded "+
		"nevertheless", c.Data.Private, strings.Join(have, ", "), quote.Shell(instead...)))
}

// checkCells does so for the runs of a grid that are not begun.
func (f ownFlag) checkCells(cmd *cobra.Command, dir string, base configs.Config, v grid.Varied) error {
	_, cells, err := v.Cells(base)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if rundir.Exists(filepath.Join(dir, c.Name)) {
			continue
		}
		if err := f.check(cmd, c.Config); err != nil {
			return err
		}
	}
	return nil
}
