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
	// Threshold is H, in votes: it is subtracted from each released count, and negative results count as 0. Default 1, about
	// half the standard deviation of the preset's noise. Smaller lets samples survive by noise alone; larger selects few
	// texts, and 8 rounds of that leave little variety: at 1 some 600 of 1000 counts are above 0, at 5 some 150. 0 only
	// drops negative counts.
	Threshold float64 `yaml:"threshold"`
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
	// Variations is L−1, the variations that "aug_pe" adds of each selected text. Default 3; its paper takes 6 for open
	// models. More explore faster and share the votes among more texts. "pre_text" makes one.
	Variations int `yaml:"variations"`
}

// PrivateEvolutionSFT says how the adapters are fine-tuned on the samples with the highest scores, by next-token loss.
// Samples and scores are as for "popri".
type PrivateEvolutionSFT struct {
	// Share is the share of a round's samples that is trained on, those with the highest scores, above 0 and at most 1.
	// Default 0.1, as many as there are prompts. A larger share dilutes what clients like; a smaller one is memorised.
	Share float64 `yaml:"share"`
}
