package archtest

import (
	"slices"
	"testing"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/dpo"
	"popri/dpo/preference"
	"popri/methods"
	"popri/model/tensor"
	"popri/scoring"
	"popri/trainer"
)

// A configuration is checked without the packages that carry it out. Both must know the same names.
func TestConfigurationAndCodeKnowTheSameNames(t *testing.T) {
	texts := func(list ...ledger.Sampling) (out []string) {
		for _, s := range list {
			out = append(out, string(s))
		}
		return out
	}
	var names []string
	for _, m := range methods.All {
		names = append(names, m.Name)
	}
	for key, code := range map[string][]string{
		"method":   names,
		"dpo.loss": dpo.Losses(),

		"optimizer.schedule": append([]string{configs.Margin}, trainer.Schedules...),
		"model.device":       tensor.Devices,
		"fed.sampling":       texts(ledger.Full, ledger.Poisson, ledger.Fixed, ledger.Tree),
		"scoring.normalize":  {string(scoring.None), string(scoring.Standardized)},
	} {
		have, want := slices.Sorted(slices.Values(configs.Choices(key))), slices.Sorted(slices.Values(code))
		if !slices.Equal(have, want) {
			t.Errorf("%s may be %q, the code knows %q", key, have, want)
		}
	}
	for _, name := range configs.Choices("dpo.loss") {
		if _, err := dpo.NewLoss(name, dpo.Params{Beta: 0.1, LabelSmoothing: 0.01}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range configs.Choices("optimizer.schedule") {
		s := preference.Schedule(configs.Optimizer{Schedule: name, LearningRate: 1}, 10)
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range configs.Choices("scoring.normalize") {
		if err := (scoring.Options{Normalize: scoring.Normalize(name), Clip: 1}).Validate(); err != nil {
			t.Error(err)
		}
	}
	if names := configs.Choices("data.private"); names != nil {
		t.Errorf("data.private may be %q", names)
	}
}
