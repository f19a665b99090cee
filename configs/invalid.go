package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"popri/internal/numeric"
)

// Problem is one mistake in a configuration.
type Problem struct {
	// Where says where the value came from: "run.yaml:12", "POPRI_DPO_BETA", "--set", "preset demo". Empty where
	// a value was not loaded.
	Where string
	// Key is the setting, such as "dpo.beta"; empty where a file as a whole is meant.
	Key string
	// Text says what is wrong, with the value met and what is allowed.
	Text string
}

// String joins the parts that are there.
func (p Problem) String() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{p.Where, p.Key, p.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Invalid is a configuration that cannot be used: the user's mistakes, all of them.
type Invalid struct {
	Problems []Problem
}

// Error lists the problems, one a line.
func (e *Invalid) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0].String()
	}
	var out strings.Builder
	fmt.Fprintf(&out, "configuration: %d problems:", len(e.Problems))
	for _, p := range e.Problems {
		out.WriteString("\n  " + p.String())
	}
	return out.String()
}

// UserFault says that the user can correct it.
func (e *Invalid) UserFault() bool { return true }

// Nearest returns the known name that an unknown one was probably meant to be, or "".
func Nearest(name string, known []string) string {
	best, distance := "", 0
	for _, k := range known {
		// A key in the wrong section, or without one, is also near.
		d := min(levenshtein(name, k), levenshtein(lastPart(name), lastPart(k))+1)
		if best == "" || d < distance {
			best, distance = k, d
		}
	}
	if distance > max(2, len(lastPart(name))/3) {
		return ""
	}
	return best
}

// lastPart is a key without its section.
func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// levenshtein counts the insertions, deletions and replacements that turn one string into the other.
func levenshtein(a, b string) int {
	const longest = 64 // a key of hundreds of bytes is no slip of the pen
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := numeric.Indices(len(b) + 1)
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func sortProblems(problems []Problem) {
	position := func(p Problem) int {
		return slices.IndexFunc(keys, func(k Key) bool { return k.Name == p.Key })
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(position(a), position(b)) })
}
