package metrics

import (
	"math"
	"strings"
)

// bleuOrder is the longest run of words that counts.
const bleuOrder = 4

// BLEU scores a text against one reference, between 0 and 1: the geometric mean of the fractions of the text's runs of
// one to four words that the reference has (each as often as the reference at most), times a factor for a text that is
// shorter than the reference. Words are separated by white space. It is not smoothed: a text without a common run of
// four words has 0; of texts with fewer than four words, only the orders that they have count.
//
// Source: Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation" (2002), section 2.3.
func BLEU(text, reference string) float64 {
	words, against := strings.Fields(text), strings.Fields(reference)
	if len(words) == 0 || len(against) == 0 {
		return 0
	}
	sum, orders := 0.0, min(bleuOrder, len(words))
	for n := 1; n <= orders; n++ {
		have := map[string]int{}
		for i := 0; i+n <= len(against); i++ {
			have[strings.Join(against[i:i+n], " ")]++
		}
		common, total := 0, len(words)-n+1
		for i := range total {
			run := strings.Join(words[i:i+n], " ")
			if have[run] > 0 {
				have[run]--
				common++
			}
		}
		if common == 0 {
			return 0
		}
		sum += math.Log(float64(common) / float64(total))
	}
	short := min(0, 1-float64(len(against))/float64(len(words)))
	return math.Exp(sum/float64(orders) + short)
}
