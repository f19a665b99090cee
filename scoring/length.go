package scoring

import (
	"fmt"
	"math"

	"popri/internal/numeric"
)

// LengthRegression takes out of scores what length explains: it fits score = a_p + b·length by least squares, with an
// intercept a_p for each prompt and one slope b, and returns score − b·(length − mean length) and b. Scores that
// fall with length would otherwise let preference pairs shorten the texts round by round. perPrompt is J, the number
// of successive samples of one prompt; only differences within a prompt decide its pairs, so only they are fitted.
// Lengths that do not vary within prompts give the scores back and b = 0. It is post-processing.
//
// To fit log-length, pass logarithms (see [LogLengths]).
func LengthRegression(scores, lengths []float64, perPrompt int) ([]float64, float64, error) {
	if len(scores) != len(lengths) {
		return nil, 0, fmt.Errorf("scoring: %d scores and %d lengths", len(scores), len(lengths))
	}
	if perPrompt < 1 || len(scores)%perPrompt != 0 {
		return nil, 0, fmt.Errorf("scoring: %d scores are not %d a prompt", len(scores), perPrompt)
	}
	for i := range scores {
		if !numeric.Finite(scores[i] + lengths[i]) {
			return nil, 0, fmt.Errorf("scoring: sample %d has score %g and length %g", i, scores[i], lengths[i])
		}
	}
	var covariance, variance, total float64
	for at := 0; at < len(scores); at += perPrompt {
		s, l := scores[at:at+perPrompt], lengths[at:at+perPrompt]
		meanScore, _ := moments(s)
		meanLength, _ := moments(l)
		for i := range s {
			covariance += (l[i] - meanLength) * (s[i] - meanScore)
			variance += (l[i] - meanLength) * (l[i] - meanLength)
			total += l[i]
		}
	}
	slope := 0.0
	if variance > 0 {
		slope = covariance / variance
	}
	mean := total / float64(max(1, len(lengths)))
	return numeric.Tabulate(len(scores), func(i int) float64 { return scores[i] - slope*(lengths[i]-mean) }), slope, nil
}

// LogLengths returns ln(1 + length), for lengths in tokens or words.
func LogLengths(lengths []int) []float64 {
	return numeric.Map(lengths, func(n int) float64 { return math.Log1p(float64(n)) })
}
