// Package scoring computes what a client says about the samples, the sum of it over clients, and what may be done with
// the noised sum. It is pure arithmetic: no noise, no files, no texts.
//
// Client i with mean text embedding m_i scores the n = K·J samples (rows of Ê, unit vectors) by mean cosine, perhaps
// standardises, and clips to L2 norm C:
//
//	s_i = Ê m_i            s_i ← (s_i − mean)/std            s_i ← s_i · min(1, C/‖s_i‖)
//
// The reference path does so for each client ([Samples.ContributionOfMean]). The fast path ([Samples.Sum])
// uses that s_i is linear in m_i: with V = Ê, or Ê less its column means, and G = VᵀV, a norm is ‖V m_i‖² = m_iᵀ G m_i,
// so the sum is V·Σ_i w_i m_i at O(clients·d² + n·d) instead of O(clients·n·d). Both give the same vector.
//
// Begin with a question ([NewCosine], [NewMean], [NewVotes]) and its Sum over clients.
//
// What follows is post-processing of the noised sum and costs no privacy: [Samples.Project] takes out
// noise, [LengthRegression] takes out the pull towards short or long texts, [Rank] makes preference pairs.
package scoring
