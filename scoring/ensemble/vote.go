// Package ensemble is Hot PATE's vote (Cohen et al. 2025): many teachers, each a prompt of its own private examples to
// one language model, choose the next token of a common text.
//
//	independent   y_i ~ p^(i)                                        each teacher by itself ("cold")
//	coordinated   y_i = argmax_j p^(i)_j / u_j,  u_j ~ Exp(1)        u is shared by all teachers and public (algorithm 1, "hot")
//	histogram     c_j = #{i: y_i = j}                                E[c_j] = Σ_i p^(i)_j in both
//
// Teachers with equal distributions choose the same token in a coordinated vote, however many tokens are as likely. So
// counts are large where teachers agree, even about a wide distribution, and a threshold far above the noise lets
// tokens of little probability through. [Rule] is the threshold, [Question] what fedsim asks. The package sees no private
// text: anyone who computes the distributions votes with it.
package ensemble

import (
	"math"
	"math/rand/v2"

	"popri/internal/numeric"
)

// sharedNoise draws the public randomness of a coordinated vote over tokens tokens: −ln u_j, which is
// Gumbel-distributed. Tokens that may not be chosen get −Inf.
func sharedNoise(tokens int, banned []int32, random *rand.Rand) []float64 {
	out := numeric.Tabulate(tokens, func(int) float64 { return -math.Log(random.ExpFloat64()) })
	for _, j := range banned {
		out[j] = math.Inf(-1)
	}
	return out
}

// Vote is a teacher's token in a coordinated vote: argmax_j ln p_j − ln u_j, p being the softmax of the logits at a
// temperature above
// 0. Of equal ones the first counts. It is −1 if no logit is a number.
func Vote(logits []float32, temperature float64, shared []float64) int32 {
	best, most := int32(-1), math.Inf(-1)
	k := 1 / temperature
	for j, x := range logits {
		if v := float64(x)*k + shared[j]; v > most {
			best, most = int32(j), v
		}
	}
	return best
}

// Draw is a teacher's token in an independent vote: the token of a uniform number u in [0, 1) under the softmax of the
// logits, without the banned tokens. It is −1 if no logit is a number.
func Draw(logits []float32, temperature float64, banned []int32, u float64) int32 {
	p := probabilities(logits, temperature, banned)
	last, sum := int32(-1), 0.0
	for j, x := range p {
		if x > 0 {
			last, sum = int32(j), sum+x
		}
		if u < sum {
			break
		}
	}
	return last
}

// probabilities is the softmax of logits at a temperature, without the banned tokens.
func probabilities(logits []float32, temperature float64, banned []int32) []float64 {
	p, most := make([]float64, len(logits)), math.Inf(-1)
	for j, x := range logits {
		p[j] = float64(x) / temperature
	}
	for _, j := range banned {
		p[j] = math.Inf(-1)
	}
	for _, x := range p {
		most = math.Max(most, x)
	}
	sum := 0.0
	for j, x := range p {
		p[j] = math.Exp(x - most)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return p
}
