package configs

// Data says where the texts come from.
type Data struct {
	// Private is the clients' text: "godoc" for the doc comments of the Go toolchain, or the path of a Parquet file
	// with client_id, split and text. Default "godoc"; "" is refused.
	Private string `yaml:"private"`
	// Since leaves out the clients' texts of earlier dates (column date), and clients without any other text. It is a
	// date or its beginning: 1945, 1945-06 or 1945-06-30. Texts without a date are left out too. "", the default, takes
	// all.
	Since string `yaml:"since"`
	// TrainClients keeps this number of train clients, drawn by the seed; fewer are a subset of more. Runs on parts
	// of the same clients spend on the same clients. Default 0: all.
	TrainClients int `yaml:"train_clients" range:"[0, 2^30]"`
	// Public is the public text, from which prompts are made: "godoc"; "godoc-without-domain", which lacks the public
	// files of the clients' own folders; or the path of a Parquet, JSON lines or plain text file, or several, separated
	// by commas. Default "godoc"; "" is refused.
	Public string `yaml:"public"`
	// AllowOverlap accepts public texts that are also clients' texts, and a public file that looks like a file of
	// clients. Prompts quote such texts word for word, outside of ε, and every report says so. Default false, which
	// refuses them.
	AllowOverlap bool `yaml:"allow_overlap"`
	// MaxTokens is the largest length of a public text in tokens of the model's tokenizer; LongTexts says what happens
	// to longer texts. With generate.cut_samples, samples are cut to this length too. Clients embed private texts
	// whole, or up to the encoder's longest input; the small model cuts them to downstream.length. Default 64, the
	// paper's span. Longer texts cost generation and training time in proportion; texts below 8 tokens are too short to
	// compare.
	MaxTokens int `yaml:"max_tokens" range:"[8, 2^20]"`
	// LongTexts says what happens to public texts of more than MaxTokens tokens. "drop" leaves them out, because a
	// text that is cut teaches the model to end there. "cut" keeps as many of their first words as fit, as the paper
	// does, and suits data with few short texts, such as web pages. A run says how many texts it uses. Default
	// "drop".
	LongTexts string `yaml:"long_texts" oneof:"drop|cut"`
}
