package configs

// LoRA describes the adapters, which are the trained part of the model.
type LoRA struct {
	// Rank is the rank of each update. Default 8; the paper's 4 suffices for a large model. The adapters' size is
	// proportional to it.
	Rank int `yaml:"rank" range:"[1, 4096]"`
	// Alpha scales an update by alpha/rank. Default 16; changing it resembles changing the learning rate.
	Alpha float64 `yaml:"alpha" range:"(0, 1e6]"`
	// Targets are the names of the linear layers that get an update (c_attn, q_proj, …). Default [], all projections of
	// attention and MLP.
	Targets []string `yaml:"targets"`
}

// DPO says how the model learns from pairs.
type DPO struct {
	// Engine is what trains: "local", this program; or "trl", TRL's DPOTrainer in a process of its own, which an
	// accelerate launcher spreads over GPUs with FSDP or DeepSpeed. popri gives TRL the pairs' tokens, their order,
	// the reference log-probabilities and the learning rates, and compares the loss under the returned adapter. TRL
	// has no losses cdpo, ipo_sum, cpo, simpo, orpo, kto_pair, rebel and qrpo, sorts parts of an update instead of all of it (aot,
	// aot_unpaired), keeps no moments between rounds and measures after the last step only. An interrupted round
	// trains again and may give other bytes. Default "local".
	Engine string `yaml:"engine" oneof:"local|trl"`
	// Loss is the preference loss, under TRL's names if it has one. The losses are "sigmoid" (DPO), "sigmoid_norm"
	// and "ipo" (on averages over tokens), "ipo_sum", "cdpo" and "robust" (for flipped labels), "hinge", "exo_pair"
	// and "discopop". "nca_pair", "bco_pair", "sppo_hard", "apo_zero" and "apo_down" judge each completion alone.
	// "aot" and "aot_unpaired" sort the log-ratios of all optimizer.batch pairs of an update, and "kto_pair" is KTO
	// on both completions against the means of the update; each needs a further forward pass. "cpo", "simpo" and
	// "orpo" have no reference. "rebel" regresses on the difference of the scores, "qrpo" on the samples' ranks within
	// their prompt. "sft" trains on the chosen samples alone. Default "sigmoid".
	Loss string `yaml:"loss"`
	// Beta is the weight of staying close to the reference: a larger one moves the model less for a pair that it
	// already ranks correctly. Default 0.1; above 0.
	Beta float64 `yaml:"beta" range:"(0, 1e3]"`
	// LabelSmoothing is the fraction of pairs that "cdpo", "robust", "aot" and "aot_unpaired" assume to have swapped
	// labels, below 0.5. Default 0, with which "cdpo" and "robust" equal the sigmoid loss. "exo_pair" needs one above
	// 0, its paper recommends 1e-3; other losses accept 0 only.
	LabelSmoothing float64 `yaml:"label_smoothing"`
	// SFTWeight is the weight of the chosen samples' mean negative log-likelihood per token in the loss (TRL's
	// rpo_alpha). It keeps the chosen samples likely while the pairs are pushed apart. Default 0, as in the paper.
	SFTWeight float64 `yaml:"sft_weight" range:"[0, 1e3]"`
	// MaxLength is the largest number of tokens of a prompt with a completion in popri dpo; 0, the default, is the
	// model's context. Longer pairs
	// lose the end of their completions, as in TRL, and are counted. A run's own pairs fit and are never cut.
	MaxLength int `yaml:"max_length" range:"[0, 2^20]"`
	// RejectedRank is ℓ, the rank of the rejected sample among a prompt's J, from 2 to generate.samples. Default 5 of
	// 10, the best in the paper: samples of the last ranks are odd texts rather than texts unlike the clients'.
	RejectedRank int `yaml:"rejected_rank" range:"[2, 2^30]"`
	// MicroPairs is the number of pairs in one pass, which bounds the memory; a CPU computes as many passes at once
	// as it has threads. 0, the default, means about 768 tokens on a CPU (at most an eighth of the update's pairs),
	// half of a GPU's memory by an estimate, and 8 in TRL. More than optimizer.batch means all pairs of an update. It
	// changes results by rounding only: an update's loss is the mean over all its pairs. The method grpo computes two
	// samples for each pair, or 20 with 0.
	MicroPairs int `yaml:"micro_pairs" range:"[0, 2^30]"`
	// EvalShare is the fraction of a round's prompts whose pairs are held out for measurements. Default 0, below 1; fewer
	// than about fifty pairs give an imprecise loss.
	EvalShare float64 `yaml:"eval_share" range:"[0, 1)"`
	// Best says which adapters a round keeps: "last", after the last step; "pairs", with the least loss on held-out
	// pairs; or "fid", with the least Fréchet distance between new samples and the validation clients' texts, as in
	// the paper. The distance is computed without noise, so validation clients are not protected; reports say so.
	// Default "last".
	Best string `yaml:"best" oneof:"last|pairs|fid"`
}
