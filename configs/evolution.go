package configs

// PrivateEvolution says how a population of texts evolves by the clients' votes, without training the generator (Lin et
// al. 2024). A prompt of it quotes at most generate.examples texts.
type PrivateEvolution struct {
	// Variant is "pre_text" (Hou et al. 2024), for short texts: the population is resampled in proportion to the votes and
	// replaced by a variation of each, in which the model writes dropped words anew, and clients vote on the mean embedding of
	// four such variations of each text; or "aug_pe" (Xie et al. 2024), for long ones: the texts with the most votes stay in the
	// population together with six variations of each, for which the model is asked for another text like it, so that it must
	// follow instructions. Default "pre_text".
	Variant string `yaml:"variant"`
	// Population is N, the number of texts that are selected in a round. Default 1000. More texts share the same votes, so
	// that each text's count is small compared with the noise; fewer are less varied. Clients vote on N texts under
	// "pre_text" and on 7·N under "aug_pe".
	Population int `yaml:"population"`
	// Threshold is H, in votes: it is subtracted from each released count, and negative results count as 0. Default 1, about
	// half the standard deviation of the preset's noise. Smaller lets samples survive by noise alone; larger selects few
	// texts, and 8 rounds of that leave little variety: at 1 some 600 of 1000 counts are above 0, at 5 some 150. 0 only
	// drops negative counts.
	Threshold float64 `yaml:"threshold"`
}
