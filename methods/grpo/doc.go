// Package grpo trains the adapters on all samples of a prompt by a policy gradient (Group Relative Policy Optimization,
// Shao et al. 2024, arXiv 2402.03300), under the names of TRL's GRPOTrainer. Samples and scores are as in POPri; what
// follows the release is post-processing.
//
//	advantage  A_i = (s_i − mean of the group's scores) / (their standard deviation + 1e-4)
//	ratio      r   = π(token) / π_old(token)            π_old drew the sample
//	token      ℓ   = −min(r·A, clip(r, 1−ε, 1+ε_high)·A) + β·r·(e^d − d − 1)       d = log π_ref − log π
//	update     Σ w·ℓ
//
// The weights w are as in TRL's loss_type. A run takes TRL's defaults, with β = 0. The divergence's factor r makes its
// gradient unbiased where π has left π_old (DeepSeek-V3.2, TRL's use_bias_correction_kl).
package grpo
