// Package datasets holds the public half of the data, and cuts texts to length.
//
// Begin with [ReadPublic] for public text, and with clients.Read for the clients.
//
// The private half, the clients and their texts, is in datasets/clients. Packages that learn from data (trainer, dpo,
// lm, lora) import this package and not that one, which internal/archtest checks. So private text reaches the model
// only through fedsim's noised sums.
//
//	datasets          Public: prompts (Ω), the generator's corpus (W), a public sample of the clients' domain
//	datasets/clients  Population: clients with split, date, label and texts; Parquet in and out
//	datasets/records  texts with client, split, date and label out of files of other programs
//	datasets/minhash  texts that nearly repeat others
//	datasets/godoc    the embedded default: both halves, read from the Go toolchain's own comments
package datasets
