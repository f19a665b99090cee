// Package tokenizer turns text into token ids and back, as the tokenizer.json of a Hugging Face model says.
//
//	text ─ added tokens cut out ─ split into words ─ bytes ─ merges by rank ─► ids
//	"don't <|endoftext|>"   ["don" "'t" " "]   d·o·n → do·n → don   [9099, 470, 220, 50256]
//
// Four kinds are read ([Load]): byte-level BPE with the split of GPT-2 (RoBERTa's too), LLaMA 3, Qwen 2 or SmolLM,
// which is also trained ([TrainBPE]); BPE over characters that falls back to bytes (LLaMA 2); BERT's WordPiece; and the
// unigram model of T5 and XLM-R with SentencePiece's normalizer, also from SentencePiece's model file
// ([LoadSentencePiece]). The results equal the reference library's, offsets included, but for one thing: after a byte
// that the vocabulary lacks and that is dropped, the reference's offsets lag behind the text, and the offsets here do
// not. A file that needs something else is refused by name: a tokenizer that is nearly right makes a model worse
// without an error.
//
// Sources: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (arXiv 1508.07909);
// Kudo, "Subword Regularization" (arXiv 1804.10959); Radford et al., "Language Models are Unsupervised Multitask
// Learners" (2019), for the bytes.
package tokenizer
