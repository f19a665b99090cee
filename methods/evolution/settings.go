package evolution

import "popri/configs"

// Settings says how a population of texts evolves by the clients' votes, without training the generator (Lin et
// al. 2024). A prompt of it quotes at most generate.examples texts, which are drawn at generate.temperature. A client's
// votes are bounded by scoring.clip_norm, in texts: PrE-Text as published has the most texts of a client there, a
// number that must be public.
type Settings struct {
	// Variant is "pre_text" (Hou et al. 2024), for short texts, or "aug_pe" (Xie et al. 2024), for long ones. Under
	// "pre_text", the population is resampled in proportion to the votes and replaced by a variation of each, in
	// which a model rewrites dropped words; clients vote on the mean embedding of four such variations of each text.
	// Under "aug_pe", the texts with the most votes stay in the population together with variations of each, and the
	// model must follow instructions. Default "pre_text".
	Variant string `yaml:"variant" oneof:"pre_text|aug_pe"`
	// Population is N, the number of texts that are selected in a round. Default 1000. More texts share the same votes,
	// so that each text's count is small compared with the noise; fewer are less varied. Clients vote on N texts under
	// "pre_text" and on N·(1 + variations) under "aug_pe".
	Population int `yaml:"population" range:"[1, 2^24]"`
	// Variations is L−1, the variations of each selected text under "aug_pe". Default 6, its paper's for open models,
	// which takes 3 for GPT-3.5 on reviews. More explore faster and share the votes among more texts. "pre_text" makes
	// one.
	Variations int `yaml:"variations" range:"[1, 1000]"`
	// Variation says how a text is varied. "fill" rewrites dropped words: 30 % of the tokens, twice, or under
	// "aug_pe" half of them, once. "rephrase" asks the model to say the text in a style that is drawn for each;
	// "blank" shows it half of the words and asks it to fill in the others. Default "", which is "fill" under
	// "pre_text" and "rephrase" under "aug_pe".
	Variation string `yaml:"variation" oneof:"|fill|rephrase|blank"`
	// MaskedModel is the folder or the name of an encoder that fills masked tokens in "fill", BERT or RoBERTa, which
	// reads both sides of a blank; PrE-Text takes RoBERTa-large. One that does not tell capitals from small letters
	// gives texts without capitals. Default "": the generator rewrites the ends of texts, after a beginning of random
	// length.
	MaskedModel string `yaml:"masked_model"`
	// Threshold is H, in votes: it is subtracted from each released count, and negative results count as 0. Default 1,
	// about half the standard deviation of the preset's noise. Smaller lets samples survive by noise alone; larger
	// selects few texts, and 8 rounds of that leave little variety: at 1 some 600 of 1000 counts are above 0, at 5 some
	// 150. 0 only drops negative counts.
	Threshold float64 `yaml:"threshold" range:"[0, 1e9]"`
}

var settings = configs.Register("private_evolution", Settings{Variant: PreText, Population: 1000, Variations: 6,
	Threshold: 1}, nil)

// checkRun reports what the method needs of other settings.
func checkRun(r *configs.Report, c configs.Config) {
	if c.Generate.Examples < 1 && !rulesOf(settings.Of(c)).ends {
		r.Add("generate.examples", "is 0, must be at least 1 where method is \"private_evolution\": prompts quote what "+
			"was selected")
	}
}

// fillsMasks reports whether a masked model fills the blanks.
func (s Settings) fillsMasks() bool { return s.MaskedModel != "" && rulesOf(s).variation == Fill }
