package dpo

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Example is one pair as a loss sees it: log-probabilities in nats, summed over the completion's tokens.
type Example struct {
	PolicyChosen, PolicyRejected float64
	RefChosen, RefRejected       float64
	ChosenLen, RejectedLen       int     // completion tokens, including the end-of-text token
	MeanChosenLen                float64 // mean of ChosenLen over the pairs of the update
}

// chosen and rejected are the log-ratios of policy to reference.
func (e Example) chosen() float64   { return e.PolicyChosen - e.RefChosen }
func (e Example) rejected() float64 { return e.PolicyRejected - e.RefRejected }

// Loss is a preference loss.
type Loss interface {
	// Eval returns the loss of one pair and its derivatives with respect to PolicyChosen and PolicyRejected.
	Eval(e Example) (loss, gradChosen, gradRejected float64)
}

// Params are the losses' parameters, under TRL's names.
type Params struct {
	Beta           float64 // strength of the pull towards the reference; a larger β stays closer
	LabelSmoothing float64 // assumed share of flipped labels (cdpo, robust)
	SFT            float64 // weight of the chosen completions' own likelihood beside the loss (TRL's rpo_alpha)
}

var losses = map[string]func(Params) Loss{
	"sigmoid":      func(p Params) Loss { return sigmoid{p.Beta} },
	"sigmoid_norm": func(p Params) Loss { return sigmoidNorm{p.Beta} },
	"cdpo":         func(p Params) Loss { return conservative{p.Beta, p.LabelSmoothing} },
	"robust":       func(p Params) Loss { return robust{p.Beta, p.LabelSmoothing} },
	"hinge":        func(p Params) Loss { return hinge{p.Beta} },
	"ipo":          func(p Params) Loss { return ipo{p.Beta} },
	"ipo_sum":      func(p Params) Loss { return ipoSum{p.Beta} },
	"sft":          func(Params) Loss { return sft{} },
}

// Losses returns the names that [NewLoss] knows, sorted.
func Losses() []string {
	var names []string
	for name := range losses {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// NewLoss makes a loss by name: sigmoid (DPO), sigmoid_norm, cdpo, robust, hinge, ipo (averaged over tokens, as TRL does),
// ipo_sum or sft.
func NewLoss(name string, p Params) (Loss, error) {
	make, ok := losses[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("dpo: loss %q is unknown (%s)", name, strings.Join(Losses(), ", "))
	case !(p.Beta > 0) || math.IsInf(p.Beta, 0):
		return nil, fmt.Errorf("dpo: beta is %g, it must be positive", p.Beta)
	case !(p.LabelSmoothing >= 0 && p.LabelSmoothing < 0.5):
		return nil, fmt.Errorf("dpo: label smoothing is %g, it must be in [0, 0.5)", p.LabelSmoothing)
	case !(p.SFT >= 0) || math.IsInf(p.SFT, 0):
		return nil, fmt.Errorf("dpo: the SFT term has weight %g, it must not be negative", p.SFT)
	}
	loss := make(p)
	if p.SFT > 0 {
		loss = withSFT{loss, p.SFT}
	}
	return loss, nil
}

// softplus is ln(1+eˣ), −ln σ(−x).
func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

// logistic is σ(x).
func logistic(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}
