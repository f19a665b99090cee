// Package configs is the configuration of a run: every setting with its meaning, the presets, and a strict loader.
//
//	base ─► preset ─► world ─► file ─► environment (POPRI_DPO_BETA) ─► --set dpo.beta=0.1      the last one wins
//
// An unknown key, a value of the wrong type and an impossible value are the user's mistakes; [Load] collects all of
// them, with the source of each, into one [*Invalid]. A [Config] prints itself with every key ([Config.YAML]), and
// what it prints loads to the same Config.
package configs
