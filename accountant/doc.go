// Package accountant computes what releases cost in (ε, δ), and how much noise a budget needs.
//
// σ is the noise's standard deviation divided by the L2 norm bound of one client's vector. In neighbouring data sets,
// all texts of one client are there or taken away ([ZeroOut]), and the number of clients is public. T rounds of noise σ
// compose exactly to a single release of noise σ/√T, for which (Balle and Wang 2018, theorem 8), with μ = √T/σ,
//
//	δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)
//
// [Exact] computes this. [PLD] computes the distribution of the privacy loss on a grid and is as tight if each round
// asks a random sample of the clients. [RDP] uses Rényi divergences: it is looser and fast. [Plan] inverts any of them
// to find the noise or the number of rounds. Every answer holds for a [Relation] and a unit (see [Event.Group]); an
// accountant without a bound returns [ErrNotApplicable].
//
// The sampling of clients decides which accountants are valid:
//
//	everybody                exact, pld, rdp      all relations
//	each with prob. q        pld, rdp             zero out, add or remove; pld also replace
//	n of N, no replacement   pld, rdp             replace: another client is drawn instead
//
// Begin with [Plan.Sigma] for the noise that a budget needs, or with the Epsilon of an [Accountant] for what was spent.
//
// A selection of the largest counts ([Gumbel]) is no sum; rdp alone covers it, with all clients, under zero out and add
// or remove.
//
// A tree of sums ([Tree]) counts as one Gaussian release with the tree's sensitivity. The ledger, which refuses charges
// beyond a budget, is accountant/ledger.
package accountant
