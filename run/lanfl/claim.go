package lanfl

import (
	"fmt"
	"math"
)

// Claim is what LanFL's random choice of k texts gives for one text of a participant who has n texts at least.
type Claim struct {
	Records int     `json:"records"` // k
	Least   int     `json:"least"`   // n
	Samples int     `json:"samples"` // of each participant, before the filter
	Epsilon float64 `json:"epsilon"` // of all samples, for the pair with Delta
	Delta   float64 `json:"delta"`   // of all samples; may be above 1, which says nothing
}

// newClaim adds up the samples: each is (ln((n+1)/(n+1−k)), k/(n+1))-differentially private for neighbours that differ
// in one more text, since the k texts are drawn uniformly without replacement and the model's answer is deterministic.
func newClaim(records, least, samples int) Claim {
	n, k, s := float64(least), float64(records), float64(samples)
	return Claim{records, least, samples, s * math.Log((n+1)/(n+1-k)), s * k / (n + 1)}
}

// String says what the claim is worth.
func (c Claim) String() string {
	return fmt.Sprintf("Not private in the sense of this program. With %d of at least %d texts behind each of %d "+
		"samples, LanFL's choice of texts gives one text ε = %.3g and δ = %.3g for all of a participant's samples. A "+
		"δ of k/(n+1) for each sample is also the δ of publishing k texts as they are; popri refuses a δ of 1 / "+
		"clients or more elsewhere.", c.Records, c.Least, c.Samples, c.Epsilon, c.Delta)
}
