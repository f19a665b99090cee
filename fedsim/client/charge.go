package client

import (
	"encoding/hex"
	"fmt"
	"time"

	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/internal/fault"
)

// own is what an answer costs this client, for its own record.
func own(a *aggregate.Announcement) (ledger.Entry, error) {
	e, err := a.Charge(int(a.Clients))
	id := a.ID()
	e.Cohort, e.Clients, e.ReleaseHash = 1, 1, hex.EncodeToString(id[:])
	return e, err
}

// affordable refuses what the client's budget does not cover, and noise that protects nobody.
func (r *Responder) affordable(a *aggregate.Announcement) error {
	if a.InsecureSeed != r.InsecureSeeds {
		return fault.Userf("client: the noise of round %d comes from a seed: %v; this client accepts: %v", a.Round,
			a.InsecureSeed, r.InsecureSeeds)
	}
	if limit := 1 / float64(a.Clients); r.Delta >= limit {
		return fault.Userf("client: δ is %g, want less than 1/clients = %.3g", r.Delta, limit)
	}
	return r.recorded(a, (*ledger.Ledger).Covers)
}

// charge charges the client's own record with an answer, once, if it can still be sent.
func (r *Responder) charge(a *aggregate.Announcement) error {
	if !time.Now().Before(a.Ends()) {
		return fmt.Errorf("client: the deadline of round %d is past. Nothing new was charged", a.Round)
	}
	return r.recorded(a, (*ledger.Ledger).Pay)
}

// recorded calls do with the client's own record and what an answer costs.
func (r *Responder) recorded(a *aggregate.Announcement, do func(l *ledger.Ledger, cost ledger.Entry) error) error {
	entry, err := own(a)
	if err == nil {
		err = r.open()
	}
	if err != nil {
		return err
	}
	return do(r.ledger, entry)
}
