package dpo

import (
	"fmt"

	"popri/internal/rows"
)

// Pair is one preference: two completions of a prompt, with their origin.
type Pair struct {
	Prompt, Chosen, Rejected []int32 // token ids; completions include their end token if they ended by themselves
	PromptText               string
	ChosenText, RejectedText string
	PromptIndex              int     // among the round's prompts
	ChosenIndex              int     // among the prompt's samples
	RejectedIndex            int     //
	ChosenScore              float64 // noisy mean score
	RejectedScore            float64 //
	// among the prompt's samples, from 2; the chosen one has 1. 0 where nothing was ranked
	RejectedRank int
	Round        int // round of the samples, from 1; 0 outside of runs
	Reference    [2]float64
	HasReference bool // Reference holds the log-probabilities of chosen and rejected with the adapters off
}

type pairRow struct {
	Prompt        string  `parquet:"prompt,zstd"`
	Chosen        string  `parquet:"chosen,zstd"`
	Rejected      string  `parquet:"rejected,zstd"`
	PromptIDs     []int32 `parquet:"prompt_ids,zstd"`
	ChosenIDs     []int32 `parquet:"chosen_ids,zstd"`
	RejectedIDs   []int32 `parquet:"rejected_ids,zstd"`
	PromptIndex   int64   `parquet:"prompt_index"`
	ChosenIndex   int64   `parquet:"chosen_index"`
	RejectedIndex int64   `parquet:"rejected_index"`
	ChosenScore   float64 `parquet:"chosen_score"`
	RejectedScore float64 `parquet:"rejected_score"`
	RejectedRank  int64   `parquet:"rejected_rank"`
	Round         int64   `parquet:"round"`
}

// WritePairs writes pairs as Parquet: TRL's columns prompt, chosen and rejected, the token ids and the provenance.
func WritePairs(path string, pairs []Pair) error {
	list := make([]pairRow, len(pairs))
	for i, p := range pairs {
		list[i] = pairRow{p.PromptText, p.ChosenText, p.RejectedText, p.Prompt, p.Chosen, p.Rejected,
			int64(p.PromptIndex), int64(p.ChosenIndex), int64(p.RejectedIndex), p.ChosenScore,
			p.RejectedScore, int64(p.RejectedRank), int64(p.Round)}
	}
	return rows.Write(path, list)
}

// ReadPairs reads what [WritePairs] wrote.
func ReadPairs(path string) (pairs []Pair, err error) {
	list, err := rows.Read[pairRow](path)
	if err != nil {
		return nil, fmt.Errorf("dpo: %w", err)
	}
	for i, r := range list {
		if len(r.ChosenIDs) == 0 || len(r.RejectedIDs) == 0 || len(r.PromptIDs) == 0 {
			return nil, fmt.Errorf("dpo: %s: row %d has no token ids", path, i)
		}
		pairs = append(pairs, Pair{Prompt: r.PromptIDs, Chosen: r.ChosenIDs, Rejected: r.RejectedIDs,
			PromptText: r.Prompt, ChosenText: r.Chosen, RejectedText: r.Rejected,
			PromptIndex: int(r.PromptIndex), ChosenIndex: int(r.ChosenIndex), RejectedIndex: int(r.RejectedIndex),
			ChosenScore: r.ChosenScore, RejectedScore: r.RejectedScore,
			RejectedRank: int(r.RejectedRank), Round: int(r.Round)})
	}
	return pairs, nil
}
