// Package datasets holds the public half of the data: texts that anybody may see, and how texts are cut to length.
//
// The private half, the clients and their texts, lives in datasets/clients. The split is a rule that the compiler
// helps to keep: whatever learns from data (trainer, dpo, lm, lora) imports this package and never that one, so that
// private text reaches the model only through fedsim's noised sums.
//
//	datasets          Public: prompts (Ω), the generator's corpus (W), a public sample of the clients' domain
//	datasets/clients  Population: clients with split, date, label and texts; Parquet in and out
//	datasets/godoc    the embedded default: both halves, read from the Go toolchain's own comments
package datasets
