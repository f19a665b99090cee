package configs

// Scoring says what a client computes and how the noised sum is used.
type Scoring struct {
	// Encoder turns texts into vectors. "latent", the default, and "hashing" need no weights and are fitted to the
	// public texts: "latent" finds the directions in which words occur together; "hashing" projects words at random,
	// which is faster and less precise. "minilm" is the paper's encoder, all-MiniLM-L6-v2, which separates meanings
	// better and which make demo ENCODER=minilm fetches. A path (with a "/") is the folder of another encoder of
	// sentence-transformers, or a name on Hugging Face's hub that popri model get has fetched: BERT (also bge, e5),
	// RoBERTa (all-distilroberta-v1), XLM-RoBERTa, CamemBERT, MPNet (all-mpnet-base-v2) or T5 (sentence-t5, gtr). If
	// its config_sentence_transformers.json names a default prompt, it goes before each text.
	Encoder string `yaml:"encoder"`
	// Dim is the length of the vectors of "latent" and "hashing"; a folder has its own. Default 512. A smaller one
	// separates texts less; a larger one costs the clients time, and under release "rounds" lets the projection keep
	// more noise (its share is √((dim+1)/(K·J))).
	Dim int `yaml:"dim" range:"[2, 2^16]"`
	// Normalize is applied to each client's K·J scores before clipping: "none" as in the paper, or "standardize" as in
	// its published code, which gives every client the same weight. Release "rounds" alone has such scores. Default
	// "standardize".
	Normalize string `yaml:"normalize" oneof:"none|standardize"`
	// ClipNorm is the largest L2 norm of a client's vector: the sensitivity, to which the noise is proportional.
	// Default 1. With "standardize" it only sets the scale; with "none", a value above the vectors' norms adds noise
	// without need. It bounds the votes of private_evolution, too (times √k if a text has k votes). At 1 no client's
	// votes are below the bound. At the most texts of a client nothing is clipped, and the noise equals PrE-Text's.
	// For wasp, it is in norms of one text's votes, 1.633 for eight.
	ClipNorm float64 `yaml:"clip_norm" range:"(0, 1e6]"`
	// Release says how often clients are asked, and for what. Default "once": in round 1 for the mean embedding, from which
	// all scores follow. One release has far less noise than T releases of the same budget, and rounds, prompts and samples
	// then cost no privacy. The others ask in each round about its samples. "rounds" asks for their scores, as in the paper.
	// "votes" asks for the samples nearest to each text, as Private Evolution does (the paper's Figure 6). "clipped" asks for
	// each text's cosines, clipped to ±clip_cosine, as DP-RFT does.
	Release string `yaml:"release" oneof:"rounds|votes|clipped|once"`
	// ClipCosine is the largest cosine that counts under release "clipped", and minus the least. Default 0.5. A smaller one
	// raises the signal above the noise until cosines are cut.
	ClipCosine float64 `yaml:"clip_cosine" range:"(0, 1]"`
	// Form is the weight of a text's form, next to its embedding, which has weight 1, under release "once": capitals,
	// digits, signs, line breaks and lengths, which an encoder of meanings hardly sees (docs/preference.md). It is part
	// of the mean that clients are asked for, in the same vector and for the same charge. Default 0, none; 0.5 gives a
	// text's form about the influence of its meaning where both differ from public text.
	Form float64 `yaml:"form" range:"[0, 10]"`
	// Words is the weight of a text's words and pairs of neighbouring words, hashed to 2048 values, next to its embedding
	// under release "once". They are part of the same vector, for the same charge. An encoder of meanings hardly sees which
	// words clients choose, and a small model learns these. Each public text takes 8 KiB of memory more. Default 0, none.
	Words float64 `yaml:"words" range:"[0, 10]"`
	// Denoise removes noise from the sum that release "rounds" has, which costs no privacy: "project" projects it onto the
	// space that contains the true sum; "none" leaves it, as in the paper. Default "project".
	Denoise string `yaml:"denoise" oneof:"none|project"`
	// Objective ranks the samples. "similarity" is the clients' mean cosine, as in the paper; it pulls the texts ever
	// closer to the clients' centre and in the end degrades them. "witness" is the mean cosine with the clients minus
	// that with the samples themselves, which is zero if both have the same mean. Default "witness". Both are computed
	// from the released sum and cost no privacy.
	Objective string `yaml:"objective" oneof:"similarity|witness"`
	// LengthRegression removes from the released scores what the samples' lengths explain, so that texts do not shrink
	// from round to round. Default true.
	LengthRegression bool `yaml:"length_regression"`
	// Duplicates says how equal texts among the samples are ranked. "skip" ranks only the first one of a prompt, so
	// that no pair prefers a text to itself. "index" ranks each by its own score. "published" gives each the score of
	// the first equal text of all prompts, as the published code does by looking scores up by text. Default "skip".
	Duplicates string `yaml:"duplicates" oneof:"skip|index|published"`
}

// Fed says where the clients are and which of them take part in a round.
type Fed struct {
	// Clients is the number of train clients that are enrolled at two aggregators ("popri run --clients"); it is
	// public. 0, the default, means the train clients of data.private, which the run reads, counts and asks itself.
	// Above 0, the run reads none of their texts: data.private holds validation and test clients at most, or is
	// "none", and aggregate.least is above 0.
	Clients int `yaml:"clients" range:"[0, 2^30]"`
	// ClientsPerRound is the size of a round's cohort: exact under "fixed", expected under "poisson". 0, the default,
	// means all clients and is the only value for "full".
	ClientsPerRound int `yaml:"clients_per_round" range:"[0, 2^30]"`
	// Sampling says how a cohort is drawn, which decides the privacy accounting. "full", the default, takes every
	// client in every round. "poisson" takes each client with the same probability, so that the same noise costs less.
	// "fixed" draws a given number without replacement; it is accounted for the replacement of a client, at twice the
	// distance. "tree", of the method "dp_ftrl" alone, takes the clients in a shuffled order, each once in a pass; a
	// client's updates are in the nodes of a binary tree over the rounds of the pass, and nothing need be secret.
	// Clients that fill no cohort wait for the next pass.
	Sampling string `yaml:"sampling" oneof:"full|poisson|fixed|tree"`
}

// Aggregate says how clients report to two aggregators, of which each alone sees nothing (docs/federation.md).
type Aggregate struct {
	// Least is the number of reports below which a round is not summed. 0, the default: there are no aggregators. Above
	// 0, each client's vector is rounded by itself and both aggregators add the full noise, of which one is charged.
	// With fed.clients, which is then the number of enrolled clients, "popri run --clients" asks the aggregators;
	// without it the run simulates them.
	Least int `yaml:"least" range:"[0, 2^30]"`
	// Minutes is how long reports are taken for a round. Default 10. Clients that are off for longer miss the round.
	Minutes float64 `yaml:"minutes" range:"(0, 527040]"`
	// Available is the probability with which a client's report arrives in a round, where the run simulates the
	// clients. Default 1: all arrive. Clients have hours of their own: a client's chance rises and falls with a period
	// of 24 rounds, from another round on for each, by as much as the probability allows.
	Available float64 `yaml:"available" range:"(0, 1]"`
	// Proof says what clients prove about their vectors. "none", the default: nothing; honest clients bound their
	// vectors, and one liar can add anything. "range": no value exceeds the bound of the vector's norm. A liar then
	// adds at most √d times as much as an honest client (twice that, if the bound is no power of two), and reports
	// grow by a factor of about 60 (docs/federation.md). The sum is the same to the last bit. Simulated clients are
	// honest, so the simulation makes no proofs.
	Proof string `yaml:"proof" oneof:"none|range"`
}

// Privacy states the guarantee: (ε, δ)-differential privacy over all rounds. In neighbouring data sets, all texts of
// one client are there or taken away, and the number of clients is public; if fed.sampling is "fixed", the texts of one
// client are exchanged for others.
type Privacy struct {
	// Epsilon is the budget for all rounds together. Default 7, the larger of the paper's two; the other is 1. Above 0.
	Epsilon float64 `yaml:"epsilon" range:"(0, 1e4]"`
	// Delta is the δ of the guarantee. Default 1e-4. It must be below 1/clients, because otherwise publishing a
	// client's whole text would satisfy it; this is checked when the clients are known.
	Delta float64 `yaml:"delta"`
	// ForceDelta accepts a Delta of 1/clients or more. Every report says so. Default false.
	ForceDelta bool `yaml:"force_delta"`
	// Group is the largest number of clients that belong to one person: the guarantee covers all of them together.
	// Default
	// 1. The noise grows in proportion, so it is better to put all texts of a person into one client.
	Group int `yaml:"group" range:"[1, 1000]"`
	// Continues is the folder or the ledger of an earlier run on the same private data. Its charges count against this
	// run's budget, and the earlier ledger accepts no more charges. Default "", an unspent budget. Of
	// clients elsewhere (fed.clients), there must be as many as there were.
	Continues string `yaml:"continues"`
	// NoiseMultiplier is the noise's standard deviation σ in units of scoring.clip_norm; 0, the default, uses the
	// smallest that keeps trainer.rounds rounds within the budget. Any other value leaves the budget as it is: a release
	// that would exceed it is refused when it is charged (exit code 3).
	NoiseMultiplier float64 `yaml:"noise_multiplier" range:"[0, 1e6]"`
	// InsecureSeededNoise draws the noise from the seed instead of the system's generator, so that tests can repeat a
	// run. Anybody who knows the seed can subtract the noise: no privacy is left, and every report says so. Default
	// false.
	InsecureSeededNoise bool `yaml:"insecure_seeded_noise"`
	// UnsafeDiagnostics writes figures computed from the clients' texts without noise, for experiments on public data.
	// The guarantee does not cover them, and every report says so. Default false.
	UnsafeDiagnostics bool `yaml:"unsafe_diagnostics"`
}
