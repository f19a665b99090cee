package dpo

import "popri/model/lm"

// Metrics of one optimizer step, under TRL's names.
type Metrics struct {
	Step            int     `json:"step"` // from 1
	Loss            float64 `json:"loss"`
	RewardsChosen   float64 `json:"rewards/chosen"`
	RewardsRejected float64 `json:"rewards/rejected"`
	RewardsMargins  float64 `json:"rewards/margins"`
	Accuracy        float64 `json:"rewards/accuracies"` // fraction of pairs whose chosen reward is the larger one
	LogpsChosen     float64 `json:"logps/chosen"`
	LogpsRejected   float64 `json:"logps/rejected"`
	LogitsChosen    float64 `json:"logits/chosen"` // mean raw logit over completion positions and vocabulary
	LogitsRejected  float64 `json:"logits/rejected"`
	Entropy         float64 `json:"entropy"`   // mean over completion positions, of the next token, nats
	GradNorm        float64 `json:"grad_norm"` // before clipping
	LearningRate    float64 `json:"learning_rate"`
	NumTokens       int64   `json:"num_tokens"` // read so far: each completion with its prompt, as TRL counts them
	Epoch           float64 `json:"epoch"`      // fraction of the round's pairs that were used up to the step
	Pairs           int     `json:"pairs"`
}

// part is what one pass adds to a step's figures: to means over pairs, and to sums over tokens, of which the mean is taken
// once all are known. So no figure depends on the passes. TRL logs what its one pass of all pairs would.
type part struct {
	Metrics
	entropy float64
	logits  [2]float64 // of chosen and rejected
	tokens  [2]int
}

// whole adds up the passes of a step.
func (m *Metrics) whole(parts []part) {
	var all part
	for _, p := range parts {
		m.addPart(p.Metrics)
		all.entropy += p.entropy
		for side := range all.tokens {
			all.logits[side] += p.logits[side]
			all.tokens[side] += p.tokens[side]
		}
	}
	m.Entropy = all.entropy / float64(max(1, all.tokens[0]+all.tokens[1]))
	m.LogitsChosen = all.logits[0] / float64(max(1, all.tokens[0]))
	m.LogitsRejected = all.logits[1] / float64(max(1, all.tokens[1]))
}

// addPart adds the figures of one pass, each of which is that pass's part of the step's mean.
func (m *Metrics) addPart(p Metrics) {
	m.Loss += p.Loss
	m.RewardsChosen += p.RewardsChosen
	m.RewardsRejected += p.RewardsRejected
	m.RewardsMargins += p.RewardsMargins
	m.Accuracy += p.Accuracy
	m.LogpsChosen += p.LogpsChosen
	m.LogpsRejected += p.LogpsRejected
}

func (m *Metrics) add(loss float64, e Example, beta, n float64) {
	c, r := beta*e.chosen(), beta*e.rejected()
	m.Loss += loss
	m.RewardsChosen += c / n
	m.RewardsRejected += r / n
	m.RewardsMargins += (c - r) / n
	if c > r {
		m.Accuracy += 1 / n
	}
	m.LogpsChosen += e.PolicyChosen / n
	m.LogpsRejected += e.PolicyRejected / n
}

// addDistribution adds the entropies and the mean logits of a pass's tokens.
func (p *part) addDistribution(sc *lm.Scored) {
	for _, h := range sc.Entropy {
		p.entropy += float64(h)
	}
	for i, l := range sc.Mean {
		p.logits[sc.Row[i]%2] += float64(l)
		p.tokens[sc.Row[i]%2]++
	}
}
