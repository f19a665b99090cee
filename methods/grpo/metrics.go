package grpo

// Metrics of one update, under TRL's names.
type Metrics struct {
	Step         int     `json:"step"` // from 1, over all rounds
	Loss         float64 `json:"loss"`
	Reward       float64 `json:"reward"`               // mean score of the update's prompts
	RewardStd    float64 `json:"reward_std"`           // mean of their standard deviations
	FracZeroStd  float64 `json:"frac_reward_zero_std"` // fraction of prompts whose samples have one score
	KL           float64 `json:"kl"`                   // from the model without adapters: 0, it is not measured
	ClipLow      float64 `json:"clip_ratio/low_mean"`  // fraction of tokens
	ClipHigh     float64 `json:"clip_ratio/high_mean"`
	Clip         float64 `json:"clip_ratio/region_mean"`
	MeanLength   float64 `json:"completions/mean_length"` // tokens
	Entropy      float64 `json:"entropy"`                 // of the next token, nats
	GradNorm     float64 `json:"grad_norm"`               // before clipping
	LearningRate float64 `json:"learning_rate"`
	NumTokens    int64   `json:"num_tokens"` // read so far: each sample with its prompt, as TRL counts them
	Epoch        float64 `json:"epoch"`      // fraction of the round's prompts that were used up to the update
}

// addPass adds the figures of one pass, each of which is that pass's part of the update's.
func (m *Metrics) addPass(p Metrics) {
	m.Loss += p.Loss
	m.ClipLow += p.ClipLow
	m.ClipHigh += p.ClipHigh
	m.Clip += p.Clip
	m.Entropy += p.Entropy
}

// addToken adds the figures of a token, which has a weight in the update.
func (m *Metrics) addToken(v Value, entropy, weight float64) {
	m.Entropy += weight * entropy
	if v.Low {
		m.ClipLow += weight
		m.Clip += weight
	}
	if v.High {
		m.ClipHigh += weight
		m.Clip += weight
	}
}
