package service_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/internal/fault"
	"popri/testkit/testfederation"
)

// TestForeignCertificates: a server or a caller of another authority, or with an expired certificate, is an error after
// three tries, and what a request waits for is told once.
func TestForeignCertificates(t *testing.T) {
	f, other := testfederation.New(t, 1, nil), testfederation.New(t, 1, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	secrets, err := other.ClientTLS("")
	if err != nil {
		t.Fatal(err)
	}
	own, err := f.ClientTLS("")
	if err != nil {
		t.Fatal(err)
	}
	foreign := service.NewRemote(f.Leader.URL, aggregate.Leader, secrets)
	defer foreign.Close()
	var told atomic.Int32
	foreign.Waits = func(error) { told.Add(1) }
	if _, err := foreign.Current(ctx); !fault.IsUser(err) || !strings.Contains(err.Error(), "has expired") || told.Load() != 1 {
		t.Errorf("a server of another authority: %v, told %d times", err, told.Load())
	}
	r, err := identity.ReadRequest(filepath.Join(f.Dir, identity.Trainer, identity.RequestFile))
	if err == nil {
		err = identity.Renew(f.Dir, []*identity.Request{r}, -time.Minute) // it has expired
	}
	if err != nil {
		t.Fatal(err)
	}
	swapped := service.NewRemote(f.Leader.URL, aggregate.Helper, own)
	defer swapped.Close()
	if _, err := swapped.Current(ctx); !fault.IsUser(err) || !strings.Contains(err.Error(), "where the leader answers") {
		t.Errorf("the leader's address for the helper's: %v", err)
	}
	trainer := f.Remote(aggregate.Leader, identity.Trainer)
	defer trainer.Close()
	if _, err := trainer.Current(ctx); !fault.IsUser(err) || !strings.Contains(err.Error(), "popri aggregate renew") {
		t.Errorf("an expired certificate: %v", err)
	}
	client := f.Remote(aggregate.Helper, "")
	defer client.Close()
	if ends, err := client.Health(ctx); err != nil || time.Until(ends) > time.Hour || time.Until(ends) < 50*time.Minute {
		t.Errorf("health: the certificate ends at %v (%v)", ends, err)
	}
}
