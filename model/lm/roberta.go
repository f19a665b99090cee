package lm

import (
	"encoding/json"
	"fmt"
	"strings"
)

// RoBERTa (Liu et al. 2019) is BERT with positions that begin behind the padding token's, one type of text, and other
// names. It is there for [LoadMasked] alone.
var roberta = architecture{config: robertaConfig, fields: bertFields, build: bertBuild, rename: robertaName,
	masked: true}

func robertaConfig(raw []byte) (Config, error) {
	c, err := bertConfig(raw)
	if err != nil {
		return c, err
	}
	f := struct {
		Pad int `json:"pad_token_id"` // whose position is the padding's, before the first one
	}{1}
	if err := json.Unmarshal(raw, &f); err != nil {
		return c, fmt.Errorf("pad_token_id: %w", err)
	}
	c.FirstPosition = f.Pad + 1
	if c.Context -= c.FirstPosition; c.Context < 1 || f.Pad < 0 {
		return c, fmt.Errorf("max_position_embeddings: %d leaves no position for a token behind padding's, %d (pad_token_id)",
			c.Context+c.FirstPosition, f.Pad)
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
