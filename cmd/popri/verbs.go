package main

import (
	"errors"

	"github.com/spf13/cobra"

	"popri/accountant/ledger"
)

func (a *app) verbs() []*cobra.Command {
	return []*cobra.Command{
		a.demo(),
		a.run(),
		a.generate(),
		a.pretrain(),
		a.dpo(),
		a.eval(),
		a.ablate(),
		a.reproduce(),
		a.score(),
		a.account(),
		a.data(),
		a.model(),
		a.watch(),
		a.report(),
		a.compare(),
		a.bench(),
		a.doctor(),
		a.version(),
	}
}

// refused reports whether the privacy budget did not cover what was asked.
func refused(err error) bool { return errors.Is(err, ledger.ErrBudget) }
