package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"popri/fedsim/aggregate"
	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// Options say who a federation consists of.
type Options struct {
	Clients int // keys to make and enrol; 0 for clients that make their own
	// URLs of the aggregators: https://host:port. Their keys, and the trainer's, are made here, for tests: anyone who has the
	// folder reads every vector.
	Leader, Helper string
	// Requests are from the trainer and both aggregators, which made their keys themselves ([CreateIdentity]), in place
	// of the addresses.
	Requests []*Request
	Valid    time.Duration // of the certificates
}

// authorityYears is how long an authority's certificate is valid. Clients trust it by the file federation.json.
const authorityYears = 10

// Create makes a federation in a new or empty folder.
func Create(dir string, o Options) error {
	if o.Requests == nil {
		for role, u := range map[aggregate.Role]string{aggregate.Leader: o.Leader, aggregate.Helper: o.Helper} {
			if err := CheckURL(u); err != nil {
				return fault.Userf("the %s: %w", role, err)
			}
		}
	}
	if o.Clients < 0 || o.Clients > 1<<20 {
		return fault.Userf("%d clients to enrol, want 0 to %d", o.Clients, 1<<20)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fault.Userf("%s is not empty: new keys would make the old ones useless", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, clientsDir), 0o700); err != nil {
		return fault.User(err)
	}
	requests := o.Requests
	if requests == nil {
		for role, url := range map[string]string{Trainer: "", string(aggregate.Leader): o.Leader,
			string(aggregate.Helper): o.Helper} {
			r, err := CreateIdentity(filepath.Join(dir, role), role, url)
			if err != nil {
				return err
			}
			requests = append(requests, r)
		}
	}
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	if err := authority.writeKey(filepath.Join(dir, authorityFile)); err != nil {
		return err
	}
	var enrolled strings.Builder
	for i := range o.Clients {
		line, err := CreateClientKey(ClientKeyPath(dir, i+1))
		if err != nil {
			return err
		}
		enrolled.WriteString(line + "\n")
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, EnrolledFile), []byte(enrolled.String())); err != nil {
		return err
	}
	f := &Federation{Authority: string(encodePEM("CERTIFICATE", authority.certificate.Raw))}
	return authority.admit(dir, f, requests, o.Valid)
}

// Renew signs new certificates for requests of a federation's parties. An address or a sealing key that is new takes the
// place of the old one in federation.json, which clients then need again.
func Renew(dir string, requests []*Request, valid time.Duration) error {
	f, err := ReadFederation(filepath.Join(dir, FederationFile))
	if err != nil {
		return err
	}
	a, err := readAuthority(dir, f)
	if err != nil {
		return err
	}
	return a.admit(dir, f, requests, valid)
}

// admit signs the certificates of requests and writes them, and federation.json, into a folder for each party.
func (a *authority) admit(dir string, f *Federation, requests []*Request, valid time.Duration) error {
	for _, r := range requests {
		certificate, err := a.certify(r, valid)
		if err != nil {
			return err
		}
		folder := filepath.Join(dir, r.Role)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fault.User(err)
		}
		if err := atomicfile.WriteBytes(filepath.Join(folder, certFile), certificate); err != nil {
			return err
		}
		switch r.Role {
		case string(aggregate.Leader):
			f.Leader = Party{r.URL, r.Key}
		case string(aggregate.Helper):
			f.Helper = Party{r.URL, r.Key}
		}
	}
	for _, folder := range []string{string(aggregate.Leader), string(aggregate.Helper), Trainer,
		""} { // last: it makes the folder a federation
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return fault.User(err)
		}
		if err := atomicfile.WriteJSON(filepath.Join(dir, folder, FederationFile), f); err != nil {
			return err
		}
	}
	return nil
}

// ClientKeyPath is the file of the key of client i, from 1, that [Create] makes.
func ClientKeyPath(dir string, i int) string {
	return filepath.Join(dir, clientsDir, fmt.Sprintf("%04d.key", i))
}

// authority signs certificates.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("popri federation", authorityYears*365*24*time.Hour)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	a := &authority{key: key}
	a.certificate, err = a.sign(t, t, key.Public())
	return a, err
}

// readAuthority reads the authority of a federation in a folder.
func readAuthority(dir string, f *Federation) (*authority, error) {
	path := filepath.Join(dir, authorityFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.User(err)
	}
	key, err := parsePEM(content, x509.ParsePKCS8PrivateKey)
	private, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, fault.Userf("%s holds no key of an authority", path)
	}
	certificate, err := parsePEM([]byte(f.Authority), x509.ParseCertificate)
	if err != nil || !private.PublicKey.Equal(certificate.PublicKey) {
		return nil, fault.Userf("%s is not the key of the authority in %s", path, FederationFile)
	}
	return &authority{private, certificate}, nil
}

func template(name string, valid time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // it never fails
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), KeyUsage: x509.KeyUsageDigitalSignature}
}

func (a *authority) sign(t, parent *x509.Certificate, key any) (*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, t, parent, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("identity: certificate of %s: %w", t.Subject.CommonName, err)
	}
	return x509.ParseCertificate(raw)
}

func (a *authority) writeKey(path string) error { return writeKey(path, a.key) }

func writeKey(path string, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return atomicfile.CreateBytes(path, encodePEM("PRIVATE KEY", raw), 0o600)
}
