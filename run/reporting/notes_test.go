package reporting

import (
	"strings"
	"testing"

	"popri/configs"
	"popri/methods/rounds"
	"popri/show/series"
)

// A report says whether the rounds continued as long as they helped, where a figure shows it.
func TestConvergence(t *testing.T) {
	list := func(values ...float64) (out []series.Round) {
		for i, v := range values {
			r := series.NewRound(i + 1)
			r.Set(rounds.Distance, v)
			out = append(out, *r)
		}
		return out
	}
	behind := func(public float64, values ...float64) []series.Round {
		out := list(values...)
		out[0].Set(rounds.PublicDistance, public)
		return out
	}
	once, patient := configs.Default(), configs.Default()
	patient.Trainer = configs.Trainer{Rounds: 32, Select: "distance", Patience: 2}
	whole := patient
	whole.Trainer.Rounds = 4
	for name, c := range map[string]struct {
		config  configs.Config
		figures []series.Round
		want    string
		settled bool
	}{
		"falling": {once, list(0.4, 0.3), "had not converged. More rounds cost time and no privacy", false},
		"at a pace": {once, list(0.5, 0.45, 0.4),
			"The last two rounds took 1m12s each and lowered it by 0.0500 each; another hour is 50 such", false},
		"up at the end":  {once, list(0.4, 0.3, 0.31), "The last did not fall", false},
		"at rest":        {once, list(0.4, 0.3, 0.31, 0.32), "The last 2 did not fall", false},
		"ended":          {patient, list(0.4, 0.3, 0.31, 0.32), "so the rounds ended (trainer.patience)", true},
		"all rounds":     {whole, list(0.4, 0.3, 0.31, 0.32), "The last 2 did not fall", false},
		"ended by bound": {patient, list(0.4, 0.3, 0.31), "The last did not fall", false},
		"unknown":        {once, list(0.4), "", false},
		"public nearer":  {once, behind(0.25, 0.4, 0.3), "is nearer: 0.2500. If more rounds", false},
		"public further": {once, behind(0.35, 0.4, 0.3), "2 measurements. It was still", false},
	} {
		text, settled := convergence(c.config, c.config.Trainer.Rounds, c.figures, map[int]float64{1: 500, 2: 70, 3: 74})
		if !strings.Contains(text, c.want) || settled != c.settled || (c.want == "") != (text == "") {
			t.Errorf("%s: %q, %v", name, text, settled)
		}
	}
}

// The command of a report makes the run again, in another folder.
func TestAgain(t *testing.T) {
	c := configs.Default()
	if command := again("runs/a/", c); command != "popri run --config runs/a/config.yaml --out runs/a-again" {
		t.Error(command)
	}
	if c.Data.Private = "mine.parquet"; !strings.HasSuffix(again("runs/a", c), " --allow-embedded") {
		t.Error(again("runs/a", c))
	}
}
