package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"popri/fedsim/aggregate"
	"popri/fedsim/sealing"
	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// RequestFile is what a party gives to the authority, next to its keys, which never leave its machine.
const RequestFile = "request.json"

// Request asks the authority for a certificate. It is public.
type Request struct {
	Role string `json:"role"`          // leader, helper or trainer
	URL  string `json:"url,omitempty"` // of an aggregator
	Key  []byte `json:"key,omitempty"` // of an aggregator: to which shares are sealed
	// Signing is a certificate request (PKCS #10) in PEM, for the key of TLS.
	Signing string `json:"signing_request"`
}

// CreateIdentity makes the keys of an aggregator or the trainer in a folder, and its request.
func CreateIdentity(dir, role, url string) (*Request, error) {
	r := &Request{Role: role, URL: url}
	if err := r.checkParty(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.User(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, keyFile)); err == nil {
		return nil, fault.Userf("%s has keys already: new ones would make them useless", dir)
	}
	if role != Trainer {
		path := filepath.Join(dir, SealFile)
		if err := sealing.GenerateKey(path); err != nil {
			return nil, err
		}
		key, err := sealing.ReadPublicKey(path + sealing.PublicSuffix)
		if err != nil {
			return nil, err
		}
		r.Key = key.Bytes()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := writeKey(filepath.Join(dir, keyFile), key); err != nil {
		return nil, err
	}
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: role}}, key)
	if err != nil {
		return nil, err
	}
	r.Signing = string(encodePEM("CERTIFICATE REQUEST", raw))
	return r, atomicfile.WriteJSON(filepath.Join(dir, RequestFile), r)
}

// ReadRequest reads a request.
func ReadRequest(path string) (*Request, error) {
	r := &Request{}
	if err := atomicfile.ReadJSON(path, r); err != nil {
		return nil, fault.User(err)
	}
	if err := r.checkParty(); err != nil {
		return nil, fault.Userf("%s: %w", path, err)
	}
	if _, err := sealing.ParsePublicKey(r.Key); r.Role != Trainer && err != nil {
		return nil, fault.Userf("%s: %w", path, err)
	}
	return r, nil
}

// checkParty checks who asks, and under which address.
func (r *Request) checkParty() error {
	switch r.Role {
	case Trainer:
		return nil
	case string(aggregate.Leader), string(aggregate.Helper):
		return CheckURL(r.URL)
	}
	return fault.Userf("the role is %q, want leader, helper or trainer", r.Role)
}

// certify signs a certificate for the key of a request, whose owner has signed it.
func (a *authority) certify(r *Request, valid time.Duration) ([]byte, error) {
	request, err := parsePEM([]byte(r.Signing), x509.ParseCertificateRequest)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		return nil, fault.Userf("the request of the %s: %w", r.Role, err)
	}
	t := template(r.Role, valid)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if r.Role != Trainer {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		u, err := url.Parse(r.URL)
		if err != nil {
			return nil, fault.User(err)
		}
		if ip := net.ParseIP(u.Hostname()); ip != nil {
			t.IPAddresses = []net.IP{ip}
		} else {
			t.DNSNames = []string{u.Hostname()}
		}
	}
	certificate, err := a.sign(t, a.certificate, request.PublicKey)
	if err != nil {
		return nil, err
	}
	return encodePEM("CERTIFICATE", certificate.Raw), nil
}

// parsePEM parses the first block of a PEM file.
func parsePEM[T any](content []byte, parse func([]byte) (T, error)) (T, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		var none T
		return none, errors.New("no PEM")
	}
	return parse(block.Bytes)
}
