package embedding_test

import (
	"fmt"
	"testing"
)

// folders write the folder of each kind of sentence encoder.
var folders = map[string]func(testing.TB) string{"bert": bertFolder, "roberta": robertaFolder, "mpnet": mpnetFolder,
	"t5": t5Folder, "t5-gated": t5GatedFolder}

const bertWidth, bertHeads, bertInner, bertContext = 96, 3, 80, 64

func bertConfig(kind string, vocab int) object {
	return object{"model_type": kind, "vocab_size": vocab, "hidden_size": bertWidth, "num_hidden_layers": 2,
		"num_attention_heads": bertHeads, "intermediate_size": bertInner, "max_position_embeddings": bertContext,
		"layer_norm_eps": 1e-12, "hidden_act": "gelu"}
}

// embeddings adds what the layers of BERT's kind are given.
func (f *folder) embeddings(vocab int) {
	f.random("embeddings.word_embeddings.weight", 1, 0, int64(vocab), bertWidth)
	f.random("embeddings.position_embeddings.weight", 0.1, 0, bertContext, bertWidth)
}

// bertLayers adds the layers; names are the parts of attention, its norm last.
func (f *folder) bertLayers(names ...string) {
	f.norm("embeddings.LayerNorm", bertWidth)
	for i := range 2 {
		p := fmt.Sprintf("encoder.layer.%d.", i)
		for _, name := range names[:4] {
			f.dense(p+name, bertWidth, bertWidth)
		}
		f.norm(p+names[4], bertWidth)
		f.dense(p+"intermediate.dense", bertInner, bertWidth)
		f.dense(p+"output.dense", bertWidth, bertInner)
		f.norm(p+"output.LayerNorm", bertWidth)
	}
	f.weights("")
}

// bertFolder writes the folder of a sentence encoder with random weights and a vocabulary of letters and of the suite's
// words.
func bertFolder(t testing.TB) string {
	t.Helper()
	f := newFolder(t)
	vocab := f.wordPiece([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, "[CLS]", "[SEP]")
	config := bertConfig("bert", vocab)
	config["type_vocab_size"] = 2
	f.write("config.json", config)
	f.embeddings(vocab)
	f.selfLayers(2)
	return f.dir
}

// robertaFolder writes the folder of a RoBERTa as [bertFolder] does.
func robertaFolder(t testing.TB) string {
	t.Helper()
	f := newFolder(t)
	vocab := f.byteLevel()
	config := bertConfig("roberta", vocab)
	config["type_vocab_size"], config["pad_token_id"] = 1, 1
	f.write("config.json", config)
	f.embeddings(vocab)
	f.selfLayers(1)
	return f.dir
}

// selfLayers adds the token types and the layers of BERT and RoBERTa.
func (f *folder) selfLayers(types int64) {
	f.random("embeddings.token_type_embeddings.weight", 0.1, 0, types, bertWidth)
	f.bertLayers("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
		"attention.output.LayerNorm")
}

// mpnetFolder writes the folder of an MPNet as [bertFolder] does.
func mpnetFolder(t testing.TB) string {
	t.Helper()
	f := newFolder(t)
	vocab := f.wordPiece([]string{"<s>", "<pad>", "</s>", "[UNK]"}, "<s>", "</s>")
	config := bertConfig("mpnet", vocab)
	config["relative_attention_num_buckets"], config["pad_token_id"] = 32, 1
	f.write("config.json", config)
	f.embeddings(vocab)
	f.random("encoder.relative_attention_bias.weight", 1, 0, 32, bertHeads)
	f.bertLayers("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o", "attention.LayerNorm")
	return f.dir
}
