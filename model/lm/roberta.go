package lm

import (
	"fmt"
	"strings"
)

// RoBERTa (Liu et al. 2019) is BERT with positions that begin behind the padding token's, one type of text, and other
// names. It is there for [LoadMasked] alone.
var roberta = architecture{config: robertaConfig, fields: bertFields, build: bertBuild, rename: robertaName,
	masked: true}

// robertaFirst is RoBERTa's first position: the padding token's id, 1, is the position of padding.
const robertaFirst = 2

func robertaConfig(raw []byte) (Config, error) {
	c, err := bertConfig(raw)
	if err != nil {
		return c, err
	}
	c.FirstPosition = robertaFirst
	if c.Context -= robertaFirst; c.Context < 1 {
		return c, fmt.Errorf("max_position_embeddings: %d leaves no position for a token", c.Context+robertaFirst)
	}
	return c, nil
}

// robertaName gives RoBERTa's tensors the names of BERT's.
func robertaName(name string) string {
	if strings.HasPrefix(name, "lm_head.decoder.") {
		return "" // copies of the embedding and of the bias
	}
	for old, now := range map[string]string{"roberta.": "bert.", "lm_head.dense.": "cls.predictions.transform.dense.",
		"lm_head.layer_norm.": "cls.predictions.transform.LayerNorm.", "lm_head.bias": "cls.predictions.bias"} {
		if after, ok := strings.CutPrefix(name, old); ok {
			name = now + after
			break
		}
	}
	return bertName(name)
}
