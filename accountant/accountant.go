package accountant

// Accountant bounds the privacy loss of a sequence of events. Each event may depend on the outcomes of earlier events,
// but its noise, sampling and count must be fixed beforehand.
type Accountant interface {
	// Name is how reports call it: "exact", "rdp", "pld".
	Name() string
	// Epsilon returns the least ε that the accountant can show for the given δ (0 < δ < 1): 0 without events, +Inf
	// without noise.
	Epsilon(events []Event, delta float64) (float64, error)
	// Delta returns the least δ that the accountant can show for the given ε ≥ 0.
	Delta(events []Event, epsilon float64) (float64, error)
}

// All returns every accountant that gives bounds for the relation, the tightest first. An accountant that does not
// cover some event answers with [ErrNotApplicable].
func All(r Relation) []Accountant {
	return []Accountant{Exact{Relation: r}, PLD{Relation: r}, RDP{Relation: r}}
}

// merge joins events that differ in their count alone, in the order of their first occurrence, so that equal releases
// give equal sums however they were listed. Events without releases are dropped.
func merge(events []Event) []Event {
	var out []Event
	at := map[Event]int{}
	for _, e := range events {
		if e.Count == 0 {
			continue
		}
		if !e.sampled() {
			e.SamplingRate = 0
		}
		if !e.fixed() {
			e.Population, e.Cohort = 0, 0
		}
		if e.continuous() {
			e.Mechanism = Gaussian
		}
		e.Group = int(e.group())
		key := e
		key.Count = 0
		if i, ok := at[key]; ok {
			out[i].Count += e.Count
			continue
		}
		at[key] = len(out)
		out = append(out, e)
	}
	return out
}
