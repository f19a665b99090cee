package datasets

import (
	_ "embed"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/internal/fault"
)

// generalKinds is the name of the list that comes with the program.
const generalKinds = "general"

// The list names what people and programs write, in no order, and nothing in it was chosen for one population of
// clients.
//
//go:embed kinds.txt
var general string

// longestKind is the length in bytes from which a line is no name of a kind but a text.
const longestKind = 200

// ReadKinds returns the kinds of a list: generalKinds, or a file with one kind on each line. Repetitions and empty lines are left
// out.
func ReadKinds(name string) ([]string, error) {
	text := general
	if name != generalKinds {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fault.Userf("generate.kinds: %w", err)
		}
		text = string(b)
	}
	var out []string
	for n, line := range strings.Split(text, "\n") {
		line = strings.Join(strings.Fields(strings.TrimPrefix(line, "\ufeff")), " ")
		switch {
		case line == "" || slices.Contains(out, line):
			continue
		case !utf8.ValidString(line):
			return nil, fault.Userf("generate.kinds: %s: line %d is not UTF-8", name, n+1)
		case len(line) > longestKind:
			return nil, fault.Userf("generate.kinds: %s: line %d has %d bytes, a kind of text has at most %d: %.40q …",
				name, n+1, len(line), longestKind, line)
		}
		out = append(out, line)
	}
	if len(out) < 2 {
		return nil, fault.Userf("generate.kinds: %s names %d kinds of text, must name 2 or more", name, len(out))
	}
	return out, nil
}
