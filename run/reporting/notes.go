package reporting

import (
	"cmp"
	"fmt"
	"time"

	"popri/configs"
	"popri/internal/quote"
	"popri/methods/rounds"
	"popri/show/series"
)

// selected says which adapters wrote the synthetic set.
func selected(s rounds.Selection) string {
	if s.By == configs.ValidationLoss {
		state := fmt.Sprintf("the model after round %d", s.Round)
		if s.Round == 0 {
			state = "the model before the first round, ε = 0: no round's was better"
		}
		return fmt.Sprintf("The model that is published or writes the set is %s. It had the least loss on the validation clients, %.4f "+
			"nats a token (trainer.select), measured without noise: validation clients are not protected.", state, s.Value)
	}
	adapters := fmt.Sprintf("the adapters after round %d", s.Round)
	if s.Round == 0 {
		adapters = "the adapters before the first update of the rounds"
	}
	what := "released distance from the clients' mean embedding, %.4f (trainer.select=distance). The distance " +
		"follows from the release and costs no privacy."
	if s.By == rounds.FID {
		what = "Fréchet distance from the validation clients' texts, %.4f (trainer.select=fid). It is measured " +
			"without noise: validation clients are not protected."
	}
	return fmt.Sprintf("The model's part of the synthetic set was written with %s: of all rounds, their samples had the "+
		"least "+what, adapters, s.Value)
}

// convergence says whether the rounds continued as long as they helped, and, if they did not, at which pace; "" where
// no figure shows it. There are at most planned rounds, which took seconds. settled reports whether trainer.patience
// ended them.
func convergence(c configs.Config, planned int, figures []series.Round, seconds map[int]float64) (text string,
	settled bool) {
	by := cmp.Or(c.SelectsBy(), rounds.Distance)
	p := rounds.ProgressOf(figures, by)
	if p.Measured < 2 {
		return "", false
	}
	name := "released distance from the clients' mean embedding"
	settled = c.Trainer.Patience > 0 && p.Idle >= c.Trainer.Patience && len(figures) < planned
	if by == configs.ValidationLoss {
		return "", settled // the plot shows it
	}
	if by == rounds.FID {
		name = "Fréchet distance from the validation clients' texts"
	}
	text = fmt.Sprintf("The samples' %s went from %.4f to %.4f in %d measurements.%s", name, p.First, p.Last, p.Measured,
		publicNearer(figures, by, p.Last))
	switch {
	case settled:
		return text + fmt.Sprintf(" It did not fall below %.4f by more than chance in the last %s, so the rounds "+
			"ended (trainer.patience).", p.Least, quote.Count(p.Idle, "measurement", "measurements")), true
	case p.Idle == 1:
		return text + " The last did not fall by more than chance.", false
	case p.Idle > 1:
		return text + fmt.Sprintf(" The last %d did not fall by more than chance.", p.Idle), false
	}
	text += " It was still falling when the rounds ended: the run had not converged."
	if c.Scoring.Release == "once" {
		text += " More rounds cost time and no privacy; with trainer.rounds=auto, they go on as long as the samples " +
			"come nearer. Text that lies nearer does not always teach more." + pace(figures, by, seconds)
	}
	return text, false
}

// publicNearer says that public text, without weights, is nearer to the clients than the samples; "" if it is not, or where no figure
// shows it.
func publicNearer(figures []series.Round, by string, last float64) string {
	public := figures[0].Get(rounds.PublicDistance)
	if by != rounds.Distance || public == nil || last < *public {
		return ""
	}
	return fmt.Sprintf(" All public text, without weights, is nearer: %.4f. If more rounds do not change that, another generator "+
		"(model.path) or weighted public text alone serves better.", *public)
}

// pace says what the last two rounds took and gained, from which a reader judges what another hour is worth; "" where
// that is not known.
func pace(figures []series.Round, by string, seconds map[int]float64) string {
	n := len(figures)
	if n < 3 {
		return ""
	}
	before, after := figures[n-3].Get(by), figures[n-1].Get(by)
	took := (seconds[figures[n-2].Number] + seconds[figures[n-1].Number]) / 2
	if before == nil || after == nil || took <= 0 || took > 3600 || *after >= *before {
		return ""
	}
	return fmt.Sprintf(" The last two rounds took %s each and lowered it by %.4f each; another hour is %.0f such "+
		"rounds. The pace slows as the samples come near.", time.Duration(took*float64(time.Second)).Round(time.Second),
		(*before-*after)/2, 3600/took)
}
