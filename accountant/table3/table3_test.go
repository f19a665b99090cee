package table3

import "testing"

// The paper's noise keeps its budget under Poisson sampling by the tight accountant, and more than keeps it: less noise
// would do. For cohorts of fixed size under replacement it does not keep it. The noise for DP-FTRL
// keeps it with 20 passes over the clients.
func TestRows(t *testing.T) {
	for _, s := range []Setting{Settings[3], Settings[12], Settings[24]} {
		r, err := s.Compute()
		if err != nil {
			t.Fatal(err)
		}
		if !(r.PLD <= s.Epsilon && r.NeededSigma <= s.Sigma && r.PLD <= r.RDP*(1+1e-6)) {
			t.Errorf("%+v", r)
		}
		if !(r.FixedPLD > s.Epsilon && r.FixedPLD <= r.FixedRDP*(1+1e-6) && r.NeededFixedSigma > s.Sigma) && s.PerRound < s.Clients && s.Epsilon > 1 {
			t.Errorf("fixed cohorts: %+v", r)
		}
		if !(r.Tree <= s.Epsilon && r.Tree > 0.89*s.Epsilon) {
			t.Errorf("DP-FTRL: %+v", r)
		}
		if (r.Exact != nil) != (s.PerRound == s.Clients) || r.Exact != nil && *r.Exact != r.PLD {
			t.Errorf("exact: %+v", r)
		}
	}
	for _, bad := range []Setting{{Clients: 10, PerRound: 20, Epsilon: 1, Sigma: 1}, {Clients: 10, PerRound: 5, Epsilon: 1, Sigma: -1, TreeSigma: 1}} {
		if _, err := bad.Compute(); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
