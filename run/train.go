package run

import (
	"cmp"
	"context"
	"errors"

	"popri/accountant/ledger"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/evaluator"
)

// Train does the remaining rounds and writes the synthetic set. If the budget ends before the last round, the set comes
// from the completed rounds, and Train returns the budget's error.
func (s *Session) Train(ctx context.Context) error {
	if err := s.clearRung(); err != nil {
		return s.tracking.Fail(err)
	}
	s.tellPublicTexts()
	ended := s.runner.Train(ctx)
	if ended != nil && (!errors.Is(ended, ledger.ErrBudget) || s.runner.Done() == 0) {
		return s.tracking.Fail(ended)
	}
	return cmp.Or(s.tracking.Fail(s.runner.Product(ctx)), ended)
}

// tellPublicTexts says how many public texts prompts can quote.
func (s *Session) tellPublicTexts() {
	if s.Config.AtClients() { // nothing quotes them
		return
	}
	texts, events := s.prompter.Public, s.runner.Events
	events.Log("public_texts", 0, texts)
	events.Say(texts.String())
	if w := texts.Warning(); w != "" {
		events.Say(w)
	}
}

// chooseMix chooses the synthetic set by the validation clients, and reports what it chose.
func (s *Session) chooseMix(ctx context.Context, stage rounds.Stage, product []sampling.Row) ([]sampling.Row, error) {
	chosen, mixed, err := evaluator.ChooseMix(ctx, *s.comparators(), s.Data.Private, product, stage.Progress)
	if err == nil && mixed != nil {
		stage.Log("mixed", *mixed)
		s.runner.Events.Say(mixed.String())
	}
	return chosen, err
}
