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

// addPart adds the figures of one pass, each of which is that pass's part of the step's mean.
func (m *Metrics) addPart(p Metrics) {
	m.Loss += p.Loss
	m.RewardsChosen += p.RewardsChosen
	m.RewardsRejected += p.RewardsRejected
	m.RewardsMargins += p.RewardsMargins
	m.Accuracy += p.Accuracy
	m.LogpsChosen += p.LogpsChosen
	m.LogpsRejected += p.LogpsRejected
	m.LogitsChosen += p.LogitsChosen
	m.LogitsRejected += p.LogitsRejected
	m.Entropy += p.Entropy
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

// addDistribution adds the mean entropy and the mean logits of a pass with the given fraction of the update's pairs. They
// are averaged over the tokens of each pass and then over the passes, as TRL logs them.
func (m *Metrics) addDistribution(sc *lm.Scored, fraction float64) {
	entropy := 0.0
	for _, h := range sc.Entropy {
		entropy += float64(h)
	}
	var sum [2]float64
	var tokens [2]int
	for i, l := range sc.Mean {
		sum[sc.Row[i]%2] += float64(l)
		tokens[sc.Row[i]%2]++
	}
	m.Entropy = fraction * entropy / float64(max(1, len(sc.Entropy)))
	m.LogitsChosen = fraction * sum[0] / float64(max(1, tokens[0]))
	m.LogitsRejected = fraction * sum[1] / float64(max(1, tokens[1]))
}
