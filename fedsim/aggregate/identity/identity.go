package identity

import (
	"bufio"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"popri/fedsim/aggregate"
	"popri/fedsim/sealing"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/numeric"
)

// The files of a federation.
const (
	FederationFile = "federation.json"
	EnrolledFile   = "enrolled.txt"
	SealFile       = "seal.key"
	certFile       = "cert.pem"
	keyFile        = "key.pem"
	authorityFile  = "authority.key"
	clientsDir     = "clients"
)

// Trainer is the name in the trainer's certificate; an aggregator's is its role.
const Trainer = "trainer"

// Party is an aggregator as others see it.
type Party struct {
	URL string `json:"url"` // https://host:port
	Key []byte `json:"key"` // to which shares are sealed
}

// Federation is what a client needs to know. It is public.
type Federation struct {
	Leader    Party  `json:"leader"`
	Helper    Party  `json:"helper"`
	Authority string `json:"authority"` // certificate, PEM
}

// Party returns the aggregator of a role.
func (f *Federation) Party(r aggregate.Role) Party {
	if r == aggregate.Leader {
		return f.Leader
	}
	return f.Helper
}

// SealingKey is the key to which shares are sealed.
func (p Party) SealingKey() (sealing.PublicKey, error) { return sealing.ParsePublicKey(p.Key) }

// ReadFederation reads federation.json.
func ReadFederation(path string) (*Federation, error) {
	f := &Federation{}
	if err := atomicfile.ReadJSON(path, f); err != nil {
		return nil, fault.User(err)
	}
	for _, r := range aggregate.Roles {
		if err := CheckURL(f.Party(r).URL); err != nil {
			return nil, fault.Userf("%s: %s: %w", path, r, err)
		}
		if _, err := f.Party(r).SealingKey(); err != nil {
			return nil, fault.Userf("%s: %s: %w", path, r, err)
		}
	}
	if _, err := f.roots(); err != nil {
		return nil, fault.Userf("%s: %w", path, err)
	}
	return f, nil
}

// CheckURL refuses an address that is not https://host or https://host:port.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err == nil && u.Port() != "" {
		_, err = strconv.ParseUint(u.Port(), 10, 16)
	}
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.User != nil {
		return fmt.Errorf("the address is %q, want https://host:port", text)
	}
	return nil
}

func (f *Federation) roots() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(f.Authority)) {
		return nil, errors.New("the authority's certificate cannot be read")
	}
	return pool, nil
}

// ClientTLS is how a client, or with a folder of its identity the trainer or an aggregator, connects: TLS 1.3, servers
// of the authority alone.
func (f *Federation) ClientTLS(dir string) (*tls.Config, error) {
	roots, err := f.roots()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}
	if dir == "" {
		return c, nil
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fault.Userf("the identity in %s: %w", dir, err)
	}
	c.Certificates = []tls.Certificate{own}
	return c, nil
}

// ServerTLS is how the aggregator with the identity in dir is reached: by TLS 1.3, by clients without a certificate
// too.
func (f *Federation) ServerTLS(dir string) (*tls.Config, error) {
	c, err := f.ClientTLS(dir)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.RootCAs = c.RootCAs, nil
	c.ClientAuth = tls.VerifyClientCertIfGiven
	c.NextProtos = []string{"h2", "http/1.1"}
	return c, nil
}

// Caller is the name in a verified client certificate; "" without one.
func Caller(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	return state.PeerCertificates[0].Subject.CommonName
}

const clientHead = "popri client key 1"

// CreateClientKey makes a client's key in a new file of mode 0600, and returns the line that enrols it.
func CreateClientKey(path string) (line string, err error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	content := fmt.Appendf(nil, "%s\n%s\n", clientHead, base64.StdEncoding.EncodeToString(private.Seed()))
	if err := atomicfile.CreateBytes(path, content, 0o600); errors.Is(err, fs.ErrExist) {
		return "", fault.Userf("%s is there already: a client has one key", path)
	} else if err != nil {
		return "", fault.User(err)
	}
	return base64.StdEncoding.EncodeToString(public), nil
}

// ReadClientKey reads a client's key.
func ReadClientKey(path string) (ed25519.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.User(err)
	}
	head, rest, _ := strings.Cut(string(content), "\n")
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if head != clientHead || err != nil || len(seed) != ed25519.SeedSize {
		return nil, fault.Userf("%s is no %s", path, strings.TrimSuffix(clientHead, " 1"))
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// revokedPrefix begins the line of a client whose reports are not taken any more.
const revokedPrefix = "revoked "

// ReadEnrolled reads the list of enrolled clients: a public key a line; empty lines and those that begin with # do not
// count, and a key that is there twice counts once. A client with a line that begins with "revoked" stays among the keys,
// because what was released depends on it.
func ReadEnrolled(path string) (keys, revoked []ed25519.PublicKey, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fault.User(err)
	}
	defer f.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		text, out := strings.CutPrefix(line, revokedPrefix)
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, nil, fault.Userf("%s: line %d is %.60q, want the base64 of a client's public key", path, n, line)
		}
		if !seen[string(key)] {
			keys = append(keys, key)
		}
		if seen[string(key)] = true; out {
			revoked = append(revoked, key)
		}
	}
	return keys, revoked, lines.Err()
}

// Tag identifies a list of enrolled clients, in whatever order, for the ledger that counts what they spend.
func Tag(enrolled []ed25519.PublicKey) string {
	lines := numeric.Map(enrolled, func(key ed25519.PublicKey) string { return string(key) })
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}

func encodePEM(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}
