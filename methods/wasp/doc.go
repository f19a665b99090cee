// Package wasp lets several generators write labelled text, and the clients' votes say which texts are good, which are
// bad, and which generator is to write more (WASP, Zou et al. 2025, algorithms 2 and 3). No generator is trained.
//
//	generators k ─ N/T·w_k texts ─► D ─► votes within a label for the Q nearest, the Q furthest, + noise      (scoring.Contrast)
//	    ▲                                      │
//	    │                                      ├─► w_k: the near votes of k's texts, relative to their share of D
//	    └── prompts: bad texts, good texts ◄───┴─► of each label the S texts with the most near votes, and the most far votes
//
// D has all texts so far. The last of the T parts is written after the last vote, so that there are T − 1 releases, and
// is a part of the synthetic set like the others. With wasp.votes_from "public" or "written", labelled public texts or
// D's texts vote in place of the clients.
//
// Noise makes some counts negative; they count as 0 for weights. The weights are scaled to a sum of 1.
package wasp
