package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"popri/accountant/ledger"
	"popri/cmd/internal/federated"
	"popri/internal/numeric"
	"popri/run"
)

// heading is a heading in the list of verbs.
type heading struct {
	title string
	verbs []*cobra.Command
}

func (a *app) groups() []heading {
	return []heading{
		{"Runs", []*cobra.Command{a.demo(), a.initialize(), a.run(), a.eval(), a.watch(), a.try()}},
		{"Clients elsewhere", []*cobra.Command{federated.Client("client", trainer), federated.Aggregate()}},
		{"Results", []*cobra.Command{a.report(), a.publish(), a.judge(), a.compare(), a.ablate(), a.compareMethods(),
			a.reproduce()}},
		{"Privacy", []*cobra.Command{a.account()}},
		{"Data and models", []*cobra.Command{a.data(), a.model(), a.pretrain()}},
		{"Parts of a run alone", []*cobra.Command{a.generate(), a.dpo()}},
		{"To compare with", []*cobra.Command{a.lanfl()}},
		{"This program", []*cobra.Command{a.doctor(), a.bench(), a.version()}},
	}
}

// trainer opens the small model of a client.
func trainer(small string) (federated.Trainer, error) { return run.OpenSmall(small) }

// refused reports whether the privacy budget did not cover what was asked.
func refused(err error) bool { return errors.Is(err, ledger.ErrBudget) }

// group makes a verb that only contains other verbs. Called alone or with an unknown word, it lists them.
func group(use, short, example string, verbs ...*cobra.Command) *cobra.Command {
	names := numeric.Map(verbs, (*cobra.Command).Name)
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(fmt.Errorf("name one of %s", joined(names)))
			}
			return usage(fmt.Errorf("%q is not one of %s", args[0], joined(names)))
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}
