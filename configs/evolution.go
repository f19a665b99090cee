package configs

// PrivateEvolution says how a population of texts evolves by the clients' votes, without training the generator (Lin et
// al. 2024). A prompt of it quotes at most generate.examples texts.
type PrivateEvolution struct {
	// Variant is "pre_text" (Hou et al. 2024), for short texts: the population is resampled in proportion to the votes and
	// replaced by a variation of each; or "aug_pe" (Xie et al. 2024), for long ones: the selected texts stay in the
	// population together with their variations. Default "pre_text".
	Variant string `yaml:"variant"`
	// Population is N, the number of texts that are selected in a round. Default 1000. More texts share the same votes, so
	// that each text's count is small compared with the noise; fewer are less varied. Clients vote on N texts under
	// "pre_text" and on N·(1 + variations) under "aug_pe".
	Population int `yaml:"population"`
	// Metric says how a client's text finds its nearest sample: "l2" is the Euclidean distance, "cosine" the cosine. Default
	// "l2", as in both papers. They differ if look_ahead is 2 or more: a mean of embeddings is shorter than 1, and "l2"
	// prefers samples whose variations differ from each other, because their mean is nearer to every text.
	Metric string `yaml:"metric"`
	// Votes is the number of nearest samples for which a text votes, with weights 1, 1/2, 1/4, …. Default 1, as in the
	// papers; more make the histogram smoother and less precise. At most 64.
	Votes int `yaml:"votes"`
	// PerText divides a client's votes by the number of its texts before clipping. Default false: with it, a client of many
	// different texts gives shorter vectors than clip allows, and the noise hides more of them.
	PerText bool `yaml:"per_text"`
	// Clip is the largest L2 norm of a client's votes: the sensitivity, to which the noise is proportional. Default 1, which
	// is the norm of one text's vote; with per_text false no client has a smaller norm, so that no noise is wasted. Larger
	// values give clients of many texts more weight and add more noise.
	Clip float64 `yaml:"clip"`
	// Threshold is H, in votes: it is subtracted from each released count, and negative results count as 0. Default 1, about
	// half the standard deviation of the preset's noise. Smaller lets samples survive by noise alone; larger selects few
	// texts, and 8 rounds of that leave little variety: at 1 some 600 of 1000 counts are above 0, at 5 some 150. 0 only
	// drops negative counts.
	Threshold float64 `yaml:"threshold"`
	// NoiseFactor multiplies the noise multiplier that the budget needs; the ledger is charged for the noise that is really
	// added, so the run spends less than privacy.epsilon. Default 1; the published code of PrE-Text adds 2.179 times the
	// noise that its paper accounts for. Values below 1 are refused, because the budget needs more noise.
	// If privacy.noise_multiplier is set, it is the noise, and no factor is applied.
	NoiseFactor float64 `yaml:"noise_factor"`
	// Select says how "aug_pe" selects N texts: "rank" takes those with the most votes, "sample" draws with replacement in
	// proportion to the votes. Default "rank", as in its paper. "pre_text" always samples.
	Select string `yaml:"select"`
	// LookAhead is the number of variations of a sample whose mean embedding represents it in the vote, so that clients vote
	// on what a text becomes. Default 4, as in PrE-Text; 0 takes the sample's own embedding, as in Aug-PE. The time for
	// writing grows by look_ahead times the population.
	LookAhead int `yaml:"look_ahead"`
	// Variation says how a text is varied: "fill" drops words and lets the model write new ones; "rephrase" asks for another
	// text like it. Default "fill", which keeps most of the text; a model that does not follow instructions strays far
	// from the parent by "rephrase". A causal model fills only the end of a text.
	Variation string `yaml:"variation"`
	// MaskShare is the mean share of a text's words that "fill" drops, above 0 and at most 1. Default 0.3, as in PrE-Text;
	// Aug-PE drops 0.5. A smaller share hardly varies the texts; a larger one loses what was selected.
	MaskShare float64 `yaml:"mask_share"`
	// Variations is L−1, the variations that "aug_pe" adds of each selected text. Default 3; its paper takes 6 for open
	// models. More explore faster and share the votes among more texts. "pre_text" makes one.
	Variations int `yaml:"variations"`
	// Accumulate says which selected texts the prompts of the synthetic set quote: those of "all" rounds, as in PrE-Text,
	// which are more varied; or of the "last" round, which resemble the clients' more. Default "all".
	Accumulate string `yaml:"accumulate"`
}

// PrivateEvolutionSFT says how the adapters are fine-tuned on the samples with the highest scores, by next-token loss.
// Samples and scores are as for "popri".
type PrivateEvolutionSFT struct {
	// Share is the share of a round's samples that is trained on, those with the highest scores, above 0 and at most 1.
	// Default 0.1, as many as there are prompts. A larger share dilutes what clients like; a smaller one is memorised.
	Share float64 `yaml:"share"`
	// Batch is the number of samples of an update. Default 20; all of them are in memory at once.
	Batch int `yaml:"batch"`
	// Epochs is the number of passes over a round's samples. Default 1; more memorise the samples.
	Epochs int `yaml:"epochs"`
	// LearningRate is AdamW's constant learning rate, above 0. Default 5e-4.
	LearningRate float64 `yaml:"learning_rate"`
}
