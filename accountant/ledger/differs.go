package ledger

import "fmt"

// Differs lists in words the values that differ: "epsilon is 7, was 3". b is the wanted budget, other the existing one.
// Hashes are left out, because people do not compare them by eye.
func (b Budget) Differs(other Budget) []string {
	out := compare("epsilon", b.Epsilon, other.Epsilon)
	out = append(out, compare("delta", b.Delta, other.Delta)...)
	out = append(out, compare("forced delta", b.ForcedDelta, other.ForcedDelta)...)
	return append(out, b.protects(other)...)
}

// protects lists the differences in whom the budgets protect, and how.
func (b Budget) protects(other Budget) []string {
	var out []string
	switch {
	case b.Data == other.Data:
	case other.Data == "":
		out = append(out, "which private data it was for is not known")
	case b.Data == "":
		out = append(out, "which private data it is for is not known")
	default:
		out = append(out, "the private data is not what it was")
	}
	out = append(out, compare("relation", string(b.Relation), string(other.Relation))...)
	out = append(out, compare("number of clients", b.Clients, other.Clients)...)
	out = append(out, compare("clients in a group", max(1, b.Group), max(1, other.Group))...)
	out = append(out, compare("privacy unit", b.Unit, other.Unit)...)
	out = append(out, compare("mechanism", b.Mechanism, other.Mechanism)...)
	return append(out, compare("insecure seeded noise", b.InsecureSeededNoise, other.InsecureSeededNoise)...)
}

// compare returns the sentence about a value that differs, or "".
func compare[T comparable](name string, is, was T) []string {
	if is == was {
		return nil
	}
	if _, text := any(is).(string); text {
		return []string{fmt.Sprintf("%s is %q, was %q", name, any(is), any(was))}
	}
	return []string{fmt.Sprintf("%s is %v, was %v", name, is, was)}
}
