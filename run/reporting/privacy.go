package reporting

import (
	"popri/accountant/guarantee"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/methods"
	"popri/show/report"
)

// accountants are the names that the report uses.
var accountants = map[string]string{"exact": "exact Gaussian (Balle and Wang 2018)",
	"pld": "privacy loss distribution (pessimistic, by FFT)"}

// privacy is the report's section about the guarantee.
func privacy(f guarantee.Facts, c *configs.Config) report.Privacy {
	b := f.Record.Budget
	own, _ := f.Releases()
	d := methods.Of(*c)
	_, bound := d.Query(*c)
	p := report.Privacy{Epsilon: b.Epsilon, Delta: b.Delta, Spent: f.Spent, Spending: f.Spending(),
		Protects: f.Protects(), Unit: b.Unit, Clients: b.Clients, Rounds: own, Planned: d.Releases(*c),
		ClipNorm:   bound,
		Accountant: accountants[ledger.Accountant(b, f.Record.Entries).Name()], Relation: string(b.Relation),
		Statement: f.Statement(), Warnings: f.Warnings()}
	if n := len(f.Record.Entries); own > 0 {
		p.NoiseMultiplier = f.Record.Entries[n-1].Sigma
	}
	if d.Denoise != nil {
		p.Denoise = d.Denoise(*c)
	}
	if (own > 0 || p.Planned == 0) && d.Notes != nil {
		p.Statement = append(p.Statement, d.Notes(*c)...)
	}
	return p
}
