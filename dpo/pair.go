package dpo

import (
	"fmt"

	"popri/internal/numeric"
	"popri/internal/rows"
)

// Pair is one preference: two completions of a prompt, with their origin. Its columns are TRL's prompt, chosen and
// rejected, the token ids and the provenance.
type Pair struct {
	PromptText   string `parquet:"prompt,zstd"`
	ChosenText   string `parquet:"chosen,zstd"`
	RejectedText string `parquet:"rejected,zstd"`
	// Token ids; completions include their end token if they ended by themselves.
	Prompt        []int32 `parquet:"prompt_ids,zstd"`
	Chosen        []int32 `parquet:"chosen_ids,zstd"`
	Rejected      []int32 `parquet:"rejected_ids,zstd"`
	PromptIndex   int     `parquet:"prompt_index"`   // among the round's prompts
	ChosenIndex   int     `parquet:"chosen_index"`   // among the prompt's samples
	RejectedIndex int     `parquet:"rejected_index"` //
	ChosenScore   float64 `parquet:"chosen_score"`   // noisy mean score
	RejectedScore float64 `parquet:"rejected_score"` //
	// Among the prompt's samples, from 2; the chosen one has 1. 0 where nothing was ranked.
	RejectedRank int        `parquet:"rejected_rank"`
	Round        int        `parquet:"round"` // round of the samples, from 1; 0 outside of runs
	Reference    [2]float64 `parquet:"-"`
	HasReference bool       `parquet:"-"` // Reference holds the log-probabilities of chosen and rejected with the adapters off
}

// pairRow is a Pair by the name that the files' schema has.
type pairRow Pair

// WritePairs writes pairs as Parquet.
func WritePairs(path string, pairs []Pair) error {
	return rows.Write(path, numeric.Map(pairs, func(p Pair) pairRow { return pairRow(p) }))
}

// ReadPairs reads what [WritePairs] wrote.
func ReadPairs(path string) (pairs []Pair, err error) {
	list, err := rows.Read[pairRow](path)
	if err != nil {
		return nil, fmt.Errorf("dpo: %w", err)
	}
	for i, r := range list {
		if len(r.Chosen) == 0 || len(r.Rejected) == 0 || len(r.Prompt) == 0 {
			return nil, fmt.Errorf("dpo: %s: row %d has no token ids", path, i)
		}
		if r.RejectedRank < 0 || r.RejectedRank == 1 {
			return nil, fmt.Errorf("dpo: %s: row %d has the rejected_rank %d, must be 2 or more, or 0", path, i, r.RejectedRank)
		}
		pairs = append(pairs, Pair(r))
	}
	return pairs, nil
}
