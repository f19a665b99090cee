package grpo

// Metrics of one update, under TRL's names.
type Metrics struct {
	Step         int     `json:"step"` // from 1, over all rounds
	Loss         float64 `json:"loss"`
	Reward       float64 `json:"reward"`               // mean score of the update's prompts
	RewardStd    float64 `json:"reward_std"`           // mean of their standard deviations
	FracZeroStd  float64 `json:"frac_reward_zero_std"` // share of prompts whose samples have one score
	KL           float64 `json:"kl"`                   // from the model without adapters; 0 if grpo.beta is 0
	ClipLow      float64 `json:"clip_ratio/low_mean"`  // share of tokens
	ClipHigh     float64 `json:"clip_ratio/high_mean"`
	Clip         float64 `json:"clip_ratio/region_mean"`
	MeanLength   float64 `json:"completions/mean_length"` // tokens
	Entropy      float64 `json:"entropy"`                 // of the next token, nats
	GradNorm     float64 `json:"grad_norm"`               // before clipping
	LearningRate float64 `json:"learning_rate"`
	NumTokens    int64   `json:"num_tokens"` // read so far: each sample with its prompt, as TRL counts them
	Epoch        float64 `json:"epoch"`      // share of the round's prompts that were used up to the update
}

// addPass adds the figures of one pass, each of which is that pass's share of the update's.
func (m *Metrics) addPass(p Metrics) {
	m.Loss += p.Loss
	m.KL += p.KL
	m.ClipLow += p.ClipLow
	m.ClipHigh += p.ClipHigh
	m.Clip += p.Clip
	m.Entropy += p.Entropy
}

// addToken adds the figures of a token, which counts for a share of the update.
func (m *Metrics) addToken(v Value, entropy, share float64) {
	m.KL += share * v.KL
	m.Entropy += share * entropy
	if v.Low {
		m.ClipLow += share
		m.Clip += share
	}
	if v.High {
		m.ClipHigh += share
		m.Clip += share
	}
}
