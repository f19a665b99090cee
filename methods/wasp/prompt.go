package wasp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"popri/internal/numeric"
	"popri/methods/sampling"
)

// pool are the texts of a label that prompts draw from, the most voted for first.
type pool struct{ good, bad []string }

// draw draws n texts of a list at different indices, or all in random order.
func draw(list []string, n int, random *rand.Rand) []string {
	return numeric.Pick(list, random.Perm(len(list))[:min(n, len(list))])
}

// shown are the texts of a prompt: with contrast, half of them are bad ones.
func (p pool) shown(w Settings, random *rand.Rand) (good, bad []string) {
	if !w.Contrast {
		return draw(p.good, most, random), nil
	}
	return draw(p.good, most-most/2, random), draw(p.bad, most/2, random)
}

// instruction asks for a text of a label, in view of good texts and of bad ones, each of which may be empty (Appendix A
// of the paper, in other words).
func instruction(w Settings, label, attribute string, good, bad []string) string {
	what := fmt.Sprintf("%s of %s", w.Item, w.words(label))
	if attribute != "" {
		what += " (" + attribute + ")"
	}
	var b strings.Builder
	switch {
	case len(good) == 0:
		fmt.Fprintf(&b, "Write a new %s.", what)
	case len(bad) == 0:
		for _, text := range good {
			fmt.Fprintf(&b, "The %s is: %s\n", w.Item, sampling.Marked(text))
		}
		fmt.Fprintf(&b, "Write a new %s in the manner of these, which says something else in other words.", what)
	default:
		for _, text := range bad {
			fmt.Fprintf(&b, "A bad %s is: %s\n", w.Item, sampling.Marked(text))
		}
		for _, text := range good {
			fmt.Fprintf(&b, "A good %s is: %s\n", w.Item, sampling.Marked(text))
		}
		fmt.Fprintf(&b, "Find out in what the good ones differ from the bad ones. Then write a new %s, in other words "+
			"than the good ones, and better than them, so that they stand midway between it and the bad ones.", what)
	}
	fmt.Fprintf(&b, "\nThe new %s is:", w.Item)
	return b.String()
}

// prompt makes a prompt that fits the model: of one that is too long, the longest text is left out, again and again.
func prompt(p *sampling.Prompter, w Settings, label, attribute string, good, bad []string) (sampling.Prompt, error) {
	for {
		out, err := p.Instruct(label, instruction(w, label, attribute, good, bad))
		if !errors.Is(err, sampling.ErrTooLong) || len(good) == 0 {
			return out, err
		}
		if longest(bad) > longest(good) || len(bad) >= len(good) {
			bad = withoutLongest(bad)
		} else {
			good = withoutLongest(good)
		}
		if len(good) == 0 {
			bad = nil
		}
	}
}

func longest(list []string) int {
	return numeric.Greatest(list, func(text string) int { return len(text) })
}

func withoutLongest(list []string) []string {
	i := slices.IndexFunc(list, func(text string) bool { return len(text) == longest(list) })
	return slices.Delete(slices.Clone(list), i, i+1)
}
