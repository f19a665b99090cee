package configs

// LoRA describes the adapters, which are the trained part of the model.
type LoRA struct {
	// Rank is the rank of each update. Default 8; the paper's 4 suffices for a large model. The adapters' size is
	// proportional to it.
	Rank int `yaml:"rank"`
	// Alpha scales an update by alpha/rank. Default 16; changing it resembles changing the learning rate.
	Alpha float64 `yaml:"alpha"`
	// Targets are the names of the linear layers that get an update (c_attn, q_proj, …). Default [], all projections of
	// attention and MLP.
	Targets []string `yaml:"targets"`
	// RSLoRA scales by alpha/√rank instead, as use_rslora of PEFT does, which keeps the size of updates independent of
	// the rank. Default false.
	RSLoRA bool `yaml:"rslora"`
	// DoRA trains the length of each output's weights apart from their direction, which the update changes (use_dora of
	// PEFT). A step takes longer, by a product of each adapted weight's size. Default false.
	DoRA bool `yaml:"dora"`
	// Dropout is the share of a layer's inputs that its update does not see in a training pass, below 1 (lora_dropout
	// of PEFT). Default 0, which is exact; 0.05 to 0.1 is usual against overfitting on few pairs. Nothing but training
	// drops inputs.
	Dropout float64 `yaml:"dropout"`
}

// DPO says how the model learns from pairs.
type DPO struct {
	// Engine is what trains: "local", this program; or "trl", TRL's DPOTrainer in a process of its own, which an
	// accelerate launcher spreads over GPUs with FSDP or DeepSpeed. popri gives TRL the pairs' tokens, their order, the
	// reference log-probabilities and the learning rates, and compares the loss under the adapter that comes back. TRL
	// has no losses cdpo, ipo_sum, cpo, simpo, orpo and kto_pair, sorts parts of an update instead of all of it (aot,
	// aot_unpaired), keeps no moments between rounds and measures after the last step only. An interrupted round trains
	// anew; no equal bytes are promised. Default "local".
	Engine string `yaml:"engine"`
	// EngineCommand starts Python for engine "trl"; the script and its folder follow. [], the default, is the Python
	// of make engines, else python3. [accelerate, launch, --config_file, fsdp.yaml]
	// trains on several GPUs.
	EngineCommand []string `yaml:"engine_command"`
	// Loss is the preference loss, under TRL's names where it has one: "sigmoid" (DPO), "sigmoid_norm" (on averages
	// over tokens), "cdpo" and "robust" (for flipped labels), "hinge", "ipo" (averaged over tokens, as in TRL),
	// "ipo_sum", "exo_pair", "discopop"; "nca_pair", "bco_pair", "sppo_hard", "apo_zero" and "apo_down" (on each
	// completion by itself); "aot" and "aot_unpaired" (on sorted log-ratios of all optimizer.batch pairs of an update,
	// for a further forward pass); "kto_pair" (KTO on both completions of each pair, against the means of the update,
	// for a further forward pass); "cpo", "simpo" and "orpo" (without a reference); or "sft", which trains on the
	// chosen samples alone. Default "sigmoid".
	Loss string `yaml:"loss"`
	// Beta is the weight of staying close to the reference: a larger one moves the model less for a pair that it
	// already ranks correctly. Default 0.1; above 0.
	Beta float64 `yaml:"beta"`
	// LabelSmoothing is the share of pairs that "cdpo", "robust", "aot" and "aot_unpaired" assume to have swapped
	// labels, below 0.5. Default 0, with which "cdpo" and "robust" equal the sigmoid loss. "exo_pair" needs one above
	// 0, its paper recommends 1e-3; other losses accept 0 only.
	LabelSmoothing float64 `yaml:"label_smoothing"`
	// SFTWeight is the weight of the chosen samples' mean negative log-likelihood per token in the loss (TRL's
	// rpo_alpha). It keeps the chosen samples likely while the pairs are pushed apart. Default 0, as in the paper.
	SFTWeight float64 `yaml:"sft_weight"`
	// FDivergence is the divergence that bounds the distance from the reference: "reverse_kl" (DPO), "forward_kl",
	// "js_divergence" or "alpha_divergence" (with α ½, TRL's default). Only the losses of the difference of both
	// log-ratios have another than the first. Default "reverse_kl".
	FDivergence string `yaml:"f_divergence"`
	// LDAlpha is the weight of a completion's tokens beyond the length of the other one, from 0 to 1 (LD-DPO), against
	// models that learn to write more rather than better. Default 1, all tokens count alike.
	LDAlpha float64 `yaml:"ld_alpha"`
	// UseWeighting weights each pair by how likely the policy would have written its completions itself (WPO), for
	// pairs that another model wrote. Not for losses that sort, nor for the likelihood of the chosen samples. Default
	// false.
	UseWeighting bool `yaml:"use_weighting"`
	// SimPOGamma is the margin γ that "simpo" asks for, at least 0. Default 0.5, as in TRL; the paper tunes it with a
	// dpo.beta of 2 to 10, to about half of it.
	SimPOGamma float64 `yaml:"simpo_gamma"`
	// MaxLength is the largest number of tokens of a prompt with a completion in popri dpo; 0, the default, is the
	// model's context. popri dpo counts the pairs that are longer. A run's own pairs fit and are never cut.
	MaxLength int `yaml:"max_length"`
	// TruncationMode says what longer pairs lose: "keep_start", as in TRL, the end of completions, and pairs whose
	// prompt alone is too long are left out; "keep_end" the beginning of the prompt. Default "keep_start".
	TruncationMode string `yaml:"truncation_mode"`
	// Reference is the model to which dpo.beta keeps the trained one close: "base", the model without adapters, as in
	// the paper; or "round_start", the model at the start of the round, which allows larger changes. Default "base".
	Reference string `yaml:"reference"`
	// RefModelSyncSteps is the number of updates after which the reference follows the policy (TR-DPO; sync_ref_model
	// of TRL): its adapter becomes RefModelMixupAlpha times the policy's plus the rest of its own. Each round begins
	// with dpo.reference. Log-probabilities of the reference are then computed for each update, which takes a further
	// forward pass. 0, the default, never does.
	RefModelSyncSteps int `yaml:"ref_model_sync_steps"`
	// RefModelMixupAlpha is the policy's share in the reference when it follows, above 0 up to 1. Default 0.6, as in
	// TRL.
	RefModelMixupAlpha float64 `yaml:"ref_model_mixup_alpha"`
	// Pairs says which of a prompt's ranked samples become pairs: the best against the one of rank RejectedRank
	// ("rank", as in the paper), against every other one ("all"), against one drawn at random ("random"), against the
	// last ("worst"), or as "rank" but only where the scores differ by more than one of their standard deviations over
	// all prompts ("margin"). Default "rank".
	Pairs string `yaml:"pairs"`
	// RejectedRank is ℓ, the rank of the rejected sample among a prompt's J, from 2 to generate.samples. Default 5 of
	// 10, the best in the paper: samples of the last ranks are odd texts rather than texts unlike the clients'. Used if
	// Pairs is "rank" or "margin".
	RejectedRank int `yaml:"rejected_rank"`
	// MicroPairs is the number of pairs in one pass, which bounds the memory; a CPU computes as many passes at once as
	// it has threads. 0, the default, means about 768 tokens on a CPU, but an eighth of the update's pairs at most, as
	// many as fit into half of a GPU's memory, and 8 in TRL; more than optimizer.batch means all pairs of an update. It
	// changes results by rounding only: an update's loss is the mean over all its pairs. The method "grpo" computes two
	// samples for each pair, or 20 with 0.
	MicroPairs int `yaml:"micro_pairs"`
	// MicroTokens is the largest number of tokens, padding included, that are computed at once: pairs of a step are
	// grouped by length, as many as fit. A longer pair is computed alone. 0, the default, uses MicroPairs alone.
	MicroTokens int `yaml:"micro_tokens"`
	// EvalShare is the share of a round's prompts whose pairs are held out for measurements. Default 0, below 1; fewer
	// than about fifty pairs give an imprecise loss.
	EvalShare float64 `yaml:"eval_share"`
	// EvalSteps is the number of steps between two measurements of the held-out pairs, or of the distance that dpo.best
	// needs; 0, the default, measures after each epoch. The end of a round is always measured.
	EvalSteps int `yaml:"eval_steps"`
	// Best says which adapters a round keeps: those of its "last" step, those with the least loss on held-out "pairs",
	// or those with the least Fréchet distance between new samples and the validation clients' texts ("fid", as in the
	// paper). The distance is computed without noise, so validation clients are not protected; reports say so. Default
	// "last".
	Best string `yaml:"best"`
	// Patience ends a round's training after this many measurements in a row without improvement; 0, the default, never
	// does.
	Patience int `yaml:"patience"`
}
