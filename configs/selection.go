package configs

// PublicSelection says which public texts become the product, without any tuning. The clients are asked once, for their
// mean embedding (norm bound scoring.clip_norm).
type PublicSelection struct {
	// Texts is the number of public texts that are selected. Default 6000; more are less like the clients' texts, and
	// fewer repeat more often in the small model's training.
	Texts int `yaml:"texts"`
	// Repeated is the number of the most relevant texts that are there twice. Default 0; at most texts.
	Repeated int `yaml:"repeated"`
	// Documents lets a text's relevance count the mean score of its document (the column source) and of the folder that
	// the document is in. Default true; texts without a source are judged alone.
	Documents bool `yaml:"documents"`
}
