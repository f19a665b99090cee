package wordpairs

import "popri/configs"

// Settings says what clients count in the method "word_pairs": tokens of the small model's tokenizer in their texts, and
// pairs of neighbouring ones, as one vector of norm 1 at most.
type Settings struct {
	// Tokens is the number of the most frequent tokens of the public text that are counted. The release has a value for
	// each and one for each pair of two: 16.8 million of 4096, in a file of 67 MB. Default 4096; more take memory and
	// noise with the square, fewer leave words out.
	Tokens int `yaml:"tokens" range:"[2, 8192]"`
	// PairShare is the fraction of a client's squared length that its pairs have; tokens have the rest. Default 0.7.
	// More shows pairs better, and tokens worse.
	PairShare float64 `yaml:"pair_share" range:"[0, 1]"`
	// Threshold is the multiple of the noise's standard deviation above which a released value is kept. Default 4: of
	// 16.8 million values that are noise alone, about 530 are kept. Lower keeps more noise, higher loses rare pairs.
	Threshold float64 `yaml:"threshold" range:"[0, 100]"`
}

var settings = configs.Register("word_pairs", Settings{Tokens: 4096, PairShare: 0.7, Threshold: 4}, nil)
