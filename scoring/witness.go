package scoring

import (
	"fmt"
	"math"

	"popri/scoring/query"
)

// Gain returns the mean factor by which normalising and clipping scale a client's cosines, w of s_i = w·Ê m_i. With
// public texts in place of the clients' texts, it gives the scale of a released mean, which clipping hides.
func (s *Samples) Gain(clients query.Means) (float64, error) {
	if clients.Dim != s.d {
		return 0, fmt.Errorf("scoring: clients' embeddings have %d dimensions, samples %d", clients.Dim, s.d)
	}
	gm := make([]float64, s.d)
	var sum float64
	counted := 0
	for i := range clients.Clients {
		mean := clients.Row(i)
		for j := range gm {
			gm[j] = dot(s.gram[j*s.d:(j+1)*s.d], mean)
		}
		w, ok := s.weight(mean, gm)
		if !ok {
			w = s.ownWeight(mean)
		}
		if w != 0 {
			sum += w
			counted++
		}
	}
	if counted == 0 {
		return 0, fmt.Errorf("scoring: none of %d clients likes one sample better than another", clients.Clients)
	}
	return sum / float64(counted), nil
}

// ClientTexts is the assumed number of texts of a client, where the scale of the clients' scores is measured on public
// texts because clipping hides it. Twice as many make the clients' mean count at most 1.4 times as much.
const ClientTexts = 4

// Groups returns where groups of each successive texts begin, at most most of them, spread evenly over n texts, and
// their size: n if there are fewer than each. Groups of public texts stand for clients where the scale of a released
// mean is measured, since successive texts are as similar as one client's.
func Groups(n, each, most int) (starts []int, size int) {
	size = min(each, n)
	groups := min(most, n/max(1, size))
	for i := range groups {
		starts = append(starts, i*(n-size+1)/groups)
	}
	return starts, size
}

// Witness turns mean scores per client into the witness function of the maximum mean discrepancy (Gretton et al., JMLR
// 13, 2012, section 2.3, with the cosine as kernel) between the clients' texts and the samples, at each sample x, up to
// a constant:
//
//	f(x) = mean over clients of ⟨x, m_i⟩ − mean over samples y of ⟨x, y⟩
//
// What the clients have and the samples lack scores high; what the samples already hold as much of as the clients
// scores nothing. Plain similarity continues praising the texts nearest to the clients' centre, however many of them are
// written. gain is from [Samples.Gain]. It is post-processing.
func (s *Samples) Witness(scores []float64, gain float64) ([]float64, error) {
	if len(scores) != s.n {
		return nil, fmt.Errorf("scoring: %d scores for %d samples", len(scores), s.n)
	}
	if !(gain > 0) || math.IsInf(gain, 1) {
		return nil, fmt.Errorf("scoring: gain is %g, want a number above 0", gain)
	}
	mean := make([]float64, s.d)
	for i := range s.n {
		for j, x := range s.given.Row(i) {
			mean[j] += float64(x) / float64(s.n)
		}
	}
	out := make([]float64, s.n)
	for i := range out {
		own := 0.0
		for j, x := range s.given.Row(i) {
			own += float64(x) * mean[j]
		}
		out[i] = scores[i]/gain - own
	}
	return out, nil
}
