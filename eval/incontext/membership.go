package incontext

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"popri/eval/metrics"
	"popri/model/lm"
)

// Membership says what answers give away of whose texts are behind demonstrations, one of which is shown at a time: a
// text that the model is shown itself gets its own label with more certainty than others (Duan et al., "On the Privacy
// Risk of In-context Learning", 2023).
type Membership struct {
	Key      string  `json:"key"`
	Name     string  `json:"name"`
	Repeats  int     `json:"repeats"`
	Members  float64 `json:"members"`  // mean probability of the right label for texts that are behind the demonstrations
	Controls float64 `json:"controls"` // and for texts that are not
	AUC      float64 `json:"auc"`      // chance that it is higher for a member than for a control; 0.5 gives nothing away
}

// Trial is a question about a member's text and one about a control's, with the same demonstration.
type Trial struct{ Shown, Member, Control Example }

// Membership asks all trials. told, if not nil, is called with the number of trials done.
func (f Format) Membership(ctx context.Context, m *lm.Model, trials []Trial, labels []string,
	told func(done int)) (Membership, error) {
	members, controls := make([]float64, len(trials)), make([]float64, len(trials))
	for i, t := range trials {
		answers, err := f.Ask(ctx, m, []Example{t.Shown}, []string{t.Member.Text, t.Control.Text}, labels, nil)
		if err != nil {
			return Membership{}, err
		}
		members[i] = answers.probability(0, slices.Index(labels, t.Member.Label))
		controls[i] = answers.probability(1, slices.Index(labels, t.Control.Label))
		if told != nil {
			told(i + 1)
		}
	}
	return Membership{Repeats: len(trials), Members: stat.Mean(members, nil), Controls: stat.Mean(controls, nil),
		AUC: metrics.AUC(members, controls)}, nil
}

// probability is that of a label of the text at a place, among all labels.
func (a Answers) probability(at, label int) float64 {
	sum := 0.0
	for _, p := range a.LogProbs[at] {
		sum += math.Exp(p - a.LogProbs[at][label])
	}
	return 1 / sum
}
