// Package accountant says what releases cost in (ε, δ), and how much noise a budget asks for.
//
// The unit is what one client adds to a sum: σ is the noise's standard deviation divided by the L2 norm that no
// client's vector exceeds. Neighbouring data sets differ by one client more or less ([AddOrRemove]). T rounds of noise
// σ compose exactly to a single release of noise σ/√T, for which (Balle and Wang 2018, theorem 8), with μ = √T/σ,
//
//	δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)
//
// [Exact] computes that. [RDP] bounds it through Rényi divergences, also where each round asks a random (Poisson) sample
// of the clients. The ledger, which refuses what a budget does not
// cover, is accountant/ledger.
package accountant
