package identity

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/fedsim/aggregate"
	"popri/internal/fault"
	"popri/testkit/testfile"
)

// TestCreate: a federation's files fit together, private keys are the user's alone, and a folder is used once.
func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fed")
	o := Options{Clients: 3, Leader: "https://leader.example:7401", Helper: "https://127.0.0.1:7402", Valid: time.Hour}
	if err := Create(dir, o); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"", "leader", "helper", Trainer} {
		f, err := ReadFederation(filepath.Join(dir, folder, FederationFile))
		if err != nil || f.Leader.URL != o.Leader || f.Party(aggregate.Helper).URL != o.Helper {
			t.Fatalf("%q: %+v, %v", folder, f, err)
		}
		if folder == "" {
			continue
		}
		if _, err := f.ServerTLS(filepath.Join(dir, folder)); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
	}
	enrolled, _, err := ReadEnrolled(filepath.Join(dir, EnrolledFile))
	if err != nil || len(enrolled) != o.Clients {
		t.Fatalf("%d clients, %v", len(enrolled), err)
	}
	for i, want := range enrolled {
		key, err := ReadClientKey(ClientKeyPath(dir, i+1))
		if err != nil || !want.Equal(key.Public()) {
			t.Errorf("client %d: %v", i+1, err)
		}
	}
	swapped := []ed25519.PublicKey{enrolled[2], enrolled[0], enrolled[1]}
	if Tag(enrolled) != Tag(swapped) || Tag(enrolled) == Tag(enrolled[:2]) {
		t.Error("the tag of a list depends on its order, or not on its clients")
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if secret := strings.HasSuffix(path, ".key") || filepath.Base(path) == keyFile; secret &&
			info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %04o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Create(dir, o); !fault.IsUser(err) {
		t.Errorf("a second time: %v", err)
	}
}

func FuzzEnrolled(f *testing.F) {
	f.Add("# clients\n\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, content string) {
		path := testfile.Write(t, filepath.Join(t.TempDir(), "enrolled"), content)
		keys, _, err := ReadEnrolled(path)
		for _, key := range keys {
			if err == nil && len(key) != ed25519.PublicKeySize {
				t.Errorf("a key of %d bytes", len(key))
			}
		}
	})
}

// FuzzFederation: a description that is read can be connected with.
func FuzzFederation(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "fed")
	if err := Create(dir, Options{Leader: "https://a:1", Helper: "https://b:2", Valid: time.Hour}); err != nil {
		f.Fatal(err)
	}
	content := testfile.Read(f, filepath.Join(dir, FederationFile))
	f.Add(content)
	f.Add([]byte(`{"leader":{"url":"http://x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := testfile.Write(t, filepath.Join(t.TempDir(), FederationFile), b)
		if d, err := ReadFederation(path); err == nil {
			if _, err := d.ClientTLS(""); err != nil {
				t.Error(err)
			}
		}
	})
}
