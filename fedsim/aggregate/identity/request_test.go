package identity

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/fedsim/aggregate"
	"popri/internal/fault"
	"popri/testkit/testfile"
)

// TestOwnKeys: parties make their keys themselves, the authority's folder opens no report, and what comes back fits.
// Renewing keeps the keys; a request of new keys takes the place of the old ones.
func TestOwnKeys(t *testing.T) {
	dir := t.TempDir()
	roles := map[string]string{string(aggregate.Leader): "https://leader.example:7401",
		string(aggregate.Helper): "https://127.0.0.1:7402", Trainer: ""}
	var requests []*Request
	for role, url := range roles {
		if _, err := CreateIdentity(filepath.Join(dir, role), role, url); err != nil {
			t.Fatal(err)
		}
		r, err := ReadRequest(filepath.Join(dir, role, RequestFile))
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, r)
		if _, err := CreateIdentity(filepath.Join(dir, role), role, url); !fault.IsUser(err) {
			t.Errorf("keys are replaced: %v", err)
		}
	}
	fed := filepath.Join(dir, "fed")
	if err := Create(fed, Options{Requests: requests, Valid: time.Hour}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(fed, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (filepath.Base(path) == SealFile || filepath.Base(path) == keyFile) {
			t.Errorf("the authority has %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(role string) time.Time {
		for _, name := range []string{certFile, FederationFile} {
			testfile.Write(t, filepath.Join(dir, role, name), testfile.Read(t, filepath.Join(fed, role, name)))
		}
		f, err := ReadFederation(filepath.Join(dir, role, FederationFile))
		if err != nil {
			t.Fatal(role, err)
		}
		server, err := f.ServerTLS(filepath.Join(dir, role))
		if err != nil {
			t.Fatal(role, err)
		}
		return server.Certificates[0].Leaf.NotAfter
	}
	for role := range roles {
		if left := time.Until(deliver(role)); left > time.Hour || left < 50*time.Minute {
			t.Errorf("the certificate of the %s ends in %v", role, left)
		}
	}
	leader, err := ReadRequest(filepath.Join(dir, "leader", RequestFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := Renew(fed, []*Request{leader}, 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(deliver("leader")); left < 47*time.Hour {
		t.Errorf("a renewed certificate ends in %v", left)
	}
	fresh, err := CreateIdentity(filepath.Join(dir, "new"), "leader", "https://leader.example:7403")
	if err != nil {
		t.Fatal(err)
	}
	if err := Renew(fed, []*Request{fresh}, time.Hour); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFederation(filepath.Join(fed, FederationFile))
	if err != nil || f.Leader.URL != fresh.URL || !bytes.Equal(f.Leader.Key, fresh.Key) || bytes.Equal(fresh.Key, leader.Key) {
		t.Errorf("new keys: %v, %+v", err, f)
	}
	forged := *leader
	forged.Signing = strings.Replace(fresh.Signing, "A", "B", 1)
	if err := Renew(fed, []*Request{&forged}, time.Hour); !fault.IsUser(err) {
		t.Errorf("a request that its key did not sign: %v", err)
	}
	testfile.Write(t, filepath.Join(fed, authorityFile), "no key")
	if err := Renew(fed, []*Request{leader}, time.Hour); !fault.IsUser(err) {
		t.Errorf("without the authority's key: %v", err)
	}
}

// TestRevoked: a revoked client stays on the list, on which the ledger goes by, and is named apart; a client that is there
// twice counts once.
func TestRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), EnrolledFile)
	one, two := strings.Repeat("A", 43)+"=", strings.Repeat("B", 42)+"A="
	testfile.Write(t, path, one+"\nrevoked "+two+"\n"+one+"\n"+two+"\n")
	keys, revoked, err := ReadEnrolled(path)
	if err != nil || len(keys) != 2 || len(revoked) != 1 || !revoked[0].Equal(keys[1]) {
		t.Errorf("%d keys, %d revoked: %v", len(keys), len(revoked), err)
	}
}
