package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"popri/fedsim/aggregate"
	"popri/fedsim/sealing"
	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// Options say who a federation consists of.
type Options struct {
	Clients int // keys to make and enrol; 0 for clients that make their own
	// URLs of the aggregators: https://host:port.
	Leader, Helper string
	Valid          time.Duration // of the certificates
}

// Create makes a federation in a new or empty folder.
func Create(dir string, o Options) error {
	for role, u := range map[aggregate.Role]string{aggregate.Leader: o.Leader, aggregate.Helper: o.Helper} {
		if err := CheckURL(u); err != nil {
			return fault.Userf("the %s: %w", role, err)
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
	authority, err := newAuthority(o.Valid)
	if err != nil {
		return err
	}
	if err := authority.writeKey(filepath.Join(dir, authorityFile)); err != nil {
		return err
	}
	f := &Federation{Authority: string(encodePEM("CERTIFICATE", authority.certificate.Raw))}
	for role, party := range map[aggregate.Role]*Party{aggregate.Leader: &f.Leader, aggregate.Helper: &f.Helper} {
		if party.URL = o.Leader; role == aggregate.Helper {
			party.URL = o.Helper
		}
		u, _ := url.Parse(party.URL) // checked above
		if err := authority.issue(filepath.Join(dir, string(role)), string(role), u.Hostname(), o.Valid); err != nil {
			return err
		}
		path := filepath.Join(dir, string(role), SealFile)
		if err := sealing.GenerateKey(path); err != nil {
			return err
		}
		key, err := sealing.ReadPublicKey(path + sealing.PublicSuffix)
		if err != nil {
			return err
		}
		party.Key = key.Bytes()
	}
	if err := authority.issue(filepath.Join(dir, Trainer), Trainer, "", o.Valid); err != nil {
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
	for _, folder := range []string{string(aggregate.Leader), string(aggregate.Helper), Trainer,
		""} { // last: it makes the folder a federation
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

func newAuthority(valid time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("popri federation", valid)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	a := &authority{key: key}
	a.certificate, err = a.sign(t, t, key)
	return a, err
}

func template(name string, valid time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // it never fails
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), KeyUsage: x509.KeyUsageDigitalSignature}
}

func (a *authority) sign(t, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), a.key)
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

// issue makes a key and its certificate in a folder. host is a server's name or IP address; "" for the trainer.
func (a *authority) issue(dir, name, host string, valid time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := template(name, valid)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if host != "" {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = []net.IP{ip}
		} else {
			t.DNSNames = []string{host}
		}
	}
	certificate, err := a.sign(t, a.certificate, key)
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, keyFile), key); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, certFile), encodePEM("CERTIFICATE", certificate.Raw))
}
