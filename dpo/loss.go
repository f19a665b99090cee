package dpo

import (
	"errors"
	"fmt"
	"maps"
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
	Margin                       float64 // the chosen score less the rejected one, over the update's mean; 1 without scores
	RejectedRank                 int     // among the prompt's samples; 0 where nothing was ranked
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
	LabelSmoothing float64 // assumed probability that a label is flipped (cdpo, robust, exo_pair, aot, aot_unpaired)
	SFT            float64 // weight of the chosen completions' own likelihood, added to the loss (TRL's rpo_alpha)
	Gamma          float64 // margin of simpo (TRL's simpo_gamma)
	Samples        int     // of a prompt, among which qrpo counts ranks; 0 for 2
}

// constructors has a loss for each loss of package losses.
var constructors = map[string]func(Params) Loss{
	"sigmoid":      func(p Params) Loss { return sigmoid{p.Beta} },
	"sigmoid_norm": func(p Params) Loss { return sigmoidNorm{p.Beta} },
	"cdpo":         func(p Params) Loss { return conservative{p.Beta, p.LabelSmoothing} },
	"robust":       func(p Params) Loss { return robust{p.Beta, p.LabelSmoothing} },
	"hinge":        func(p Params) Loss { return hinge{p.Beta} },
	"ipo":          func(p Params) Loss { return ipo{p.Beta} },
	"ipo_sum":      func(p Params) Loss { return ipoSum{p.Beta} },
	"sft":          func(Params) Loss { return sft{} },
	"exo_pair":     func(p Params) Loss { return exoPair{p.Beta, p.LabelSmoothing} },
	"nca_pair":     func(p Params) Loss { return ncaPair{p.Beta} },
	"bco_pair":     func(p Params) Loss { return bcoPair{p.Beta} },
	"sppo_hard":    func(p Params) Loss { return sppoHard{p.Beta} },
	"apo_zero":     func(p Params) Loss { return apoZero{p.Beta} },
	"apo_down":     func(p Params) Loss { return apoDown{p.Beta} },
	"rebel":        func(p Params) Loss { return rebel{p.Beta} },
	"qrpo":         newQRPO,
	"discopop":     func(p Params) Loss { return discopop{p.Beta} },
	"cpo":          func(p Params) Loss { return cpo{p.Beta} },
	"simpo":        func(p Params) Loss { return simpo{p.Beta, p.Gamma} },
	"orpo":         func(p Params) Loss { return orpo{p.Beta} },
	"aot":          func(p Params) Loss { return aot{conservative{p.Beta, p.LabelSmoothing}, false} },
	"kto_pair":     func(p Params) Loss { return ktoPair{p.Beta} },
	"aot_unpaired": func(p Params) Loss { return aot{conservative{p.Beta, p.LabelSmoothing}, true} },
}

// Losses returns the names that [NewLoss] knows, sorted.
func Losses() []string { return slices.Sorted(maps.Keys(constructors)) }

// NewLoss makes a loss by the name that TRL gives it; ipo_sum (the sum over tokens), cdpo, kto_pair and the
// reference-free cpo, simpo and orpo are no values of its loss_type today.
func NewLoss(name string, p Params) (Loss, error) {
	make, ok := constructors[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("dpo: loss %q is unknown (%s)", name, strings.Join(Losses(), ", "))
	case !(p.Beta > 0) || math.IsInf(p.Beta, 0):
		return nil, fmt.Errorf("dpo: beta is %g, it must be positive", p.Beta)
	case !(p.LabelSmoothing >= 0 && p.LabelSmoothing < 0.5):
		return nil, fmt.Errorf("dpo: label smoothing is %g, it must be in [0, 0.5)", p.LabelSmoothing)
	case name == "exo_pair" && p.LabelSmoothing == 0:
		return nil, errors.New("dpo: label smoothing is 0, exo_pair needs one above 0; its paper recommends 1e-3")
	case !(p.Gamma >= 0) || math.IsInf(p.Gamma, 0):
		return nil, fmt.Errorf("dpo: gamma is %g, it must not be negative", p.Gamma)
	case !(p.SFT >= 0) || math.IsInf(p.SFT, 0):
		return nil, fmt.Errorf("dpo: the SFT term has weight %g, it must not be negative", p.SFT)
	}
	loss := make(p)
	if p.SFT > 0 {
		loss = addSFT(loss, p.SFT)
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
