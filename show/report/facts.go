package report

import "fmt"

// facts are the table of the guarantee.
func (v Privacy) facts() (list []fact) {
	add := func(name, value string) { list = append(list, fact{name, value}) }
	if v.Epsilon > 0 {
		add("Budget", "ε = "+roundedUp(v.Epsilon, 4)+", δ = "+significant(v.Delta, 3))
	}
	if v.Spent > 0 && v.Protects {
		add("Spent", "ε = "+roundedUp(v.Spent, 4))
	}
	if v.NoiseMultiplier > 0 {
		add("Noise multiplier σ", significant(v.NoiseMultiplier, 4))
	}
	if v.ClipNorm > 0 {
		add("Clip norm", significant(v.ClipNorm, 4))
	}
	if v.Unit != "" {
		add("Privacy unit", v.Unit)
	}
	if v.Relation != "" {
		add("Neighbouring relation", v.Relation)
	}
	if v.Clients > 0 {
		add("Clients", count(v.Clients))
	}
	if v.Planned > 0 {
		add("Releases", fmt.Sprintf("%d of %d", v.Rounds, v.Planned))
	} else if v.Rounds > 0 {
		add("Releases", count(v.Rounds))
	}
	if v.Accountant != "" {
		add("Accountant", v.Accountant)
	}
	if v.Denoise != "" {
		add("Denoising after release", v.Denoise)
	}
	return list
}
