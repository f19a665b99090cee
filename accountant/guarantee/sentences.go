package guarantee

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/internal/numeric"
	"popri/internal/quote"
)

// Reference is the sentence that must stand wherever the ε = ∞ row is shown.
const Reference = "The row ε = ∞, its curve, its counts and every share of the gap closed are computed from the " +
	"train clients' texts without noise. They are outside of ε."

// who names the clients that are protected together.
func (f Facts) who() string {
	if g := f.Record.Budget.Group; g > 1 {
		return fmt.Sprintf("up to %d clients together, who may be one person", g)
	}
	return "one client"
}

// Bound is "(ε, δ)-differentially private with ε = … and δ = …" with the run's figures.
func (f Facts) Bound() string {
	return fmt.Sprintf("(ε, δ)-differentially private with ε = %s and δ = %g", accountant.RoundUp(f.Spent, 4),
		f.Record.Budget.Delta)
}

// Charged says what a ledger alone guarantees, without the run that it is of.
func (f Facts) Charged() []string {
	b := f.Record.Budget
	own, inherited := f.Releases()
	switch {
	case own+inherited == 0:
		return []string{"Nothing was charged."}
	case !f.Protects():
		return []string{"The noise came from a seed, or there was too little for any bound: nobody is protected."}
	}
	return []string{
		fmt.Sprintf("What was charged, %s of %s, is %s together. The budget is ε = %g.",
			quote.Count(own+inherited, "answer", ""), quote.Count(b.Clients, "client", ""), f.Bound(), b.Epsilon),
		fmt.Sprintf("The unit of privacy: %s.", b.Unit), b.Relation.GroupWords(b.Group),
		"This is a ledger without a run: what was asked, and the noise, cannot be checked here."}
}

// Statement says what is guaranteed, to whom and how, a sentence or two each.
func (f Facts) Statement() []string {
	b := f.Record.Budget
	own, inherited := f.Releases()
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case own+inherited == 0:
		say("Nothing was released, so nothing is known of any of the %d train clients.", b.Clients)
		return append(out, f.validation())
	case b.InsecureSeededNoise:
		say("The noise came from the run's seed, so this run protects nobody.")
		if !math.IsInf(f.Spent, 1) {
			say("With noise from a secret source, its releases would be %s.", f.Bound())
		}
	case math.IsInf(f.Spent, 1):
		say("The releases hold too little noise for any bound, so this run protects nobody.")
	default:
		say("All releases together, and whatever is computed from them, synthetic texts included, are %s. The "+
			"budget is ε = %g.", f.Bound(), b.Epsilon)
		if f.Spent < 0.99*b.Epsilon && !math.IsInf(b.Epsilon, 1) {
			say("ε = %s is of the releases that were made. If what they show decided that there are no more, the guarantee "+
				"for that decision is the budget.", accountant.RoundUp(f.Spent, 4))
		}
		say("%s", f.Protected())
		say("%s", b.Relation.GroupWords(b.Group))
		say("The probability that the outcome is one of any given set is at most e^ε = %s times its probability with a "+
			"neighbour, plus δ = %g.", accountant.RoundUp(math.Exp(f.Spent), 4), b.Delta)
		say("The guarantee is for the %d train clients only.", b.Clients)
		if f.Since != "" {
			say("These are the clients with a text of %s or later (data.since). Their number is public: it is stated "+
				"without noise, outside of ε.", f.Since)
		}
		if limit := 1 / float64(b.Clients); b.Delta < limit {
			say("δ is %s times smaller than 1/clients.", accountant.RoundDown(limit/b.Delta, 2))
		}
	}
	if t := f.Together; t != nil {
		say("This run is one of an ablation. Choosing it by what other runs released spends what all of them did: %s.",
			t.Words("runs"))
	}
	out = append(out, f.validation())
	if f.selected() {
		say("%s of the largest counts of %d clients' votes %s released, each client having one vote: of %d individuals at "+
			"most, and no count. The noise was Gumbel noise of scale %s votes, drawn exactly with whole numbers; a noisy "+
			"threshold hides which individuals have votes at all. The exact counts were in one place, the memory of the program "+
			"that made the selections, which must be trusted.", quote.Count(own, "selection", ""), b.Clients,
			quote.Plural(own, "was", "were"), f.picks(), f.sigmas(accountant.Gumbel))
	} else if f.chosen() {
		say("Of %s of %s, nobody saw more than a choice by each (a token with its noised count, or that there was "+
			"none); the sums were made%s.", quote.Count(own, "sum", ""), f.whose(), f.noise())
	} else {
		say("%s of %s %s released%s.", quote.Count(own, "sum", ""), f.whose(), quote.Plural(own, "was", "were"), f.noise())
	}
	if f.Aggregated {
		say("Each of two aggregators added this noise. One is counted, so that the guarantee holds if one of them is honest; " +
			"a sum has the noise of both, which is √2 as much. The number of clients whose reports arrived is public.")
	}
	if inherited > 0 {
		say("%s of earlier runs on the same clients %s counted in ε.", quote.Count(inherited, "release", ""),
			quote.Plural(inherited, "was", "were"))
	}
	out = append(out, f.sampling()...)
	if f.Refused != nil {
		out = append(out, f.Refused.String())
	}
	return out
}

// selected reports whether selections of counts were released, and no sum.
func (f Facts) selected() bool {
	return slices.ContainsFunc(f.Record.Entries,
		func(e ledger.Entry) bool { return e.Mechanism == accountant.Gumbel && !e.Inherited })
}

// picks is the most individuals that a selection has.
func (f Facts) picks() (most int) {
	for _, e := range f.Record.Entries {
		most = max(most, e.Picks)
	}
	return most
}

// chosen reports whether choices by sums were released, and not the sums.
func (f Facts) chosen() bool {
	return slices.ContainsFunc(f.Record.Entries, func(e ledger.Entry) bool { return e.Chosen && !e.Inherited })
}

// whose says whose vectors a sum holds.
func (f Facts) whose() string {
	if slices.ContainsFunc(f.Record.Entries, func(e ledger.Entry) bool { return e.Sampling != ledger.Full }) {
		return fmt.Sprintf("the vectors of clients drawn from %d", f.Record.Budget.Clients)
	}
	if f.selected() {
		return fmt.Sprintf("%d clients' votes", f.Record.Budget.Clients)
	}
	return fmt.Sprintf("%d clients' vectors", f.Record.Budget.Clients)
}

// validation says how validation and test clients are treated.
func (f Facts) validation() string {
	switch chosen := f.Validation.chooses(); {
	case len(chosen) > 0:
		return "Validation clients are not protected: their texts are read without noise, and the result depends on " +
			"them: " + strings.Join(chosen, "; ") + ". Test clients are measured without noise in evaluations."
	case f.Validation == Evaluation && f.Evaluated:
		return "Validation and test clients are not protected: their texts are read without noise for the " +
			"distance of each round's samples and of public text, the best step of the small models and the table. " +
			"The rounds and the synthetic texts do not depend on them."
	case f.Validation == Evaluation:
		return "Validation clients are not protected: their texts are read without noise for the distance of each " +
			"round's samples. The rounds and the synthetic texts do not depend on them."
	}
	return "No validation or test client was read."
}

func (f Facts) noise() string {
	sigmas := f.sigmas("")
	if sigmas == "" {
		return ""
	}
	return fmt.Sprintf(" with noise of standard deviation %s times the largest norm of a client's vector, "+
		"rounding included", sigmas)
}

// sigmas are the noise multipliers of the run's releases by a mechanism.
func (f Facts) sigmas(m accountant.Mechanism) string {
	var sigmas []string
	for _, e := range f.Record.Entries {
		if s := fmt.Sprintf("%.6g", e.Sigma); e.Mechanism == m && !e.Inherited && !slices.Contains(sigmas, s) {
			sigmas = append(sigmas, s)
		}
	}
	return strings.Join(sigmas, " or ")
}

// sampling says which clients were asked.
func (f Facts) sampling() []string {
	kinds := map[string]int{}
	var order []string
	what := "round"
	for _, e := range f.Record.Entries {
		var s string
		if e.Part > 0 {
			what = "release"
		}
		switch e.Sampling {
		case ledger.Full:
			s = "asked every client"
			if e.Clients < e.Cohort {
				s += fmt.Sprintf("; %d of %d answered", e.Clients, e.Cohort)
			}
		case ledger.Poisson:
			s = fmt.Sprintf("asked each client with probability %.6g, in secret", e.SamplingRate)
		case ledger.Fixed:
			s = fmt.Sprintf("asked %d of %d clients, drawn without replacement and in secret", e.Cohort, f.Record.Budget.Clients)
		case ledger.Tree:
			s = fmt.Sprintf("asked %d clients each, in a shuffled order in which each of %d clients comes once at "+
				"most; every %d of these rounds are a tree, and a sum belongs to a node. A client's vectors are in "+
				"at most %d released nodes of a tree, and each node counts as a sum", e.Cohort,
				f.Record.Budget.Clients, e.Leaves, accountant.PrefixSquares(e.Leaves))
		}
		if kinds[s]++; kinds[s] == 1 {
			order = append(order, s)
		}
	}
	return numeric.Map(order, func(s string) string {
		return fmt.Sprintf("%s %s.", quote.Count(kinds[s], what, ""), s)
	})
}

// Warnings name who or what is outside of the guarantee.
func (f Facts) Warnings() []string {
	b := f.Record.Budget
	var out []string
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if b.InsecureSeededNoise {
		warn("The privacy noise came from the seed (privacy.insecure_seeded_noise). Anybody who knows the seed can " +
			"subtract it: this run protects nobody and is good for tests only.")
	}
	if math.IsInf(f.Spent, 1) || math.IsInf(b.Epsilon, 1) {
		warn("The budget has no bound: this run protects nobody.")
	}
	if limit := 1 / float64(max(1, b.Clients)); b.Delta >= limit {
		warn("δ = %g is not below 1/clients = %.3g and was forced (privacy.force_delta): publishing all texts of "+
			"a client would satisfy it.", b.Delta, limit)
	}
	if f.Unread != nil {
		warn("The run's configuration cannot be read, so the warnings that follow from it are missing here: %v", f.Unread)
	}
	if f.UnsafeDiagnostics {
		warn("Figures were computed from the clients' texts without noise (privacy.unsafe_diagnostics). They are " +
			"outside of ε, also where their folder is gone.")
	}
	if f.AllowOverlap {
		warn("Public text was allowed to be text of clients (data.allow_overlap). What prompts quote of it, and what " +
			"the synthetic set repeats of it as public rows or in written texts, is outside of ε.")
	}
	if f.Elsewhere {
		warn("The train clients were elsewhere (fed.clients above 0), so nobody compared their texts with the public " +
			"text. If public text that the prompts quote is a client's too, that is outside of ε.")
	}
	if f.Elsewhere && f.Aggregated {
		bounded := "Nobody proved that vectors are bounded: that is each client's own work."
		if f.Proved {
			bounded = "Clients proved that no value is larger than the bound; that the whole vector is bounded is " +
				"each client's own work."
		}
		warn("Clients reported to two aggregators. Both together, or anybody with the keys and the reports of both, "+
			"see each client's vector, outside of ε. %s", bounded)
	}
	if f.Reference {
		warn(Reference)
	}
	if chosen := f.Validation.chooses(); len(chosen) > 0 {
		warn("Validation clients are not protected: the result depends on their texts, read without noise: %s.",
			strings.Join(chosen, "; "))
	}
	if len(f.Changes) > 0 {
		warn("The run went on with other inputs than it began with: %s.", strings.Join(f.Changes, "; "))
	}
	if f.Record.ContinuedBy != "" {
		warn("The ledger is continued by another run's ledger, which has all that is spent on these clients.")
	}
	if f.Corpus != "" {
		out = append(out, f.Corpus)
	}
	return out
}

// Headline is the guarantee in one line.
func (f Facts) Headline() string {
	b := f.Record.Budget
	own, inherited := f.Releases()
	what := "sum"
	if f.selected() {
		what = "selection"
	}
	by := quote.Count(own, what, "") + " of " + f.whose()
	if own == 0 && inherited > 0 {
		by = quote.Count(inherited, "release", "") + " of earlier runs on the same clients"
	}
	figures := fmt.Sprintf("ε = %s at δ = %g after %s", accountant.RoundUp(f.Spent, 4), b.Delta, by)
	switch {
	case b.InsecureSeededNoise:
		return "nobody is protected: the noise came from the seed. With secret noise it would be " + figures
	case math.IsInf(f.Spent, 1):
		return "nobody is protected: the noise gives no bound"
	}
	figures += fmt.Sprintf(", for %s (%s)", f.who(), b.Unit)
	if t := f.Together; t != nil {
		figures += ". Of the run's ablation: " + t.Words("runs")
	}
	return figures
}

// Spending says in a sentence how much of the budget was spent, and by what.
func (f Facts) Spending() string {
	b := f.Record.Budget
	own, inherited := f.Releases()
	releases := fmt.Sprintf("by %s", quote.Count(own+inherited, "release", ""))
	switch {
	case own == 1 && inherited == 0:
		releases = "by the one release"
	case own == 0 && inherited == 1:
		releases = "by the one release of an earlier run on the same clients"
	case own == 0 && inherited > 0:
		releases += " of earlier runs on the same clients"
	case inherited > 0:
		releases += fmt.Sprintf(", %d of them of earlier runs on the same clients", inherited)
	}
	kind := "noised sum"
	if f.selected() {
		kind = "noisy selection"
	}
	what := fmt.Sprintf(" (δ = %g), a %s of %s", b.Delta, kind, f.whose())
	if own+inherited > 1 {
		what = fmt.Sprintf(" (δ = %g), each a %s of %s", b.Delta, kind, f.whose())
	}
	switch {
	case !f.Protects():
		return "No privacy budget holds: this run protects nobody."
	case own+inherited == 0:
		return fmt.Sprintf("%s (δ = %g) is spent yet.", f.Share(), b.Delta)
	}
	return fmt.Sprintf("%s was spent %s%s.", f.Share(), releases, what)
}

// Share says in a few words how much of the budget was spent.
func (f Facts) Share() string {
	budget, spent := accountant.RoundUp(f.Record.Budget.Epsilon, 4), accountant.RoundUp(f.Spent, 4)
	switch {
	case len(f.Record.Entries) == 0:
		return "Nothing of ε = " + budget
	case spent == budget:
		return "All of ε = " + budget
	}
	return "ε = " + spent + " of " + budget
}

// Protected says who is protected.
func (f Facts) Protected() string {
	return fmt.Sprintf("The guarantee protects %s. Here, %s.", f.who(), f.Record.Budget.Unit)
}
