package shard

import (
	"bytes"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// The first lines of the key files; the key follows in base64.
const (
	privateHead = "popri merger private key 1"
	publicHead  = "popri merger public key 1"
)

// PublicSuffix follows the name of a private key's file in that of its public key.
const PublicSuffix = ".pub"

// The cipher suite: partial sums stay secret even if X25519 or ML-KEM is broken later.
var (
	kem  = hpke.MLKEM768X25519()
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES256GCM()
)

// info separates these ciphertexts from those of other uses of a key.
var info = []byte("popri partial sum 1")

// GenerateKey makes the merger's key pair: the private key in a new file of mode 0600 at path, the public key beside it with
// [PublicSuffix]. An existing file is an error.
func GenerateKey(path string) error {
	for _, p := range []string{path, path + PublicSuffix} {
		if _, err := os.Lstat(p); err == nil {
			return keyExists(p)
		}
		if err := atomicfile.Check(p); err != nil { // before one of the two is there
			return fault.User(err)
		}
	}
	key, err := kem.GenerateKey()
	if err != nil {
		return fmt.Errorf("shard: make a key: %w", err)
	}
	secret, err := key.Bytes()
	if err != nil {
		return fmt.Errorf("shard: make a key: %w", err)
	}
	for _, file := range []struct {
		path, head string
		content    []byte
		mode       fs.FileMode
	}{{path, privateHead, secret, 0o600}, {path + PublicSuffix, publicHead, key.PublicKey().Bytes(), 0o644}} {
		content := fmt.Appendf(nil, "%s\n%s\n", file.head, base64.StdEncoding.EncodeToString(file.content))
		err := atomicfile.CreateBytes(file.path, content, file.mode)
		if errors.Is(err, fs.ErrExist) {
			return keyExists(file.path)
		}
		if err != nil {
			return fault.User(err)
		}
	}
	return nil
}

func keyExists(path string) error {
	return fault.Userf("%s is there already: a new key would make partial sums that were encrypted to the old one "+
		"unreadable; name another file", path)
}

// PublicKey is the merger's key to which partial sums are encrypted.
type PublicKey struct{ key hpke.PublicKey }

// PrivateKey is the merger's key that decrypts them.
type PrivateKey struct{ key hpke.PrivateKey }

// ReadPublicKey reads the file of a public key.
func ReadPublicKey(path string) (PublicKey, error) {
	b, err := readKey(path, publicHead, privateHead)
	if err != nil {
		return PublicKey{}, err
	}
	key, err := kem.NewPublicKey(b)
	if err != nil {
		return PublicKey{}, fault.Userf("%s: the public key cannot be used: %w", path, err)
	}
	return PublicKey{key}, nil
}

// ReadPrivateKey reads the file of a private key. A file that others may read is refused.
func ReadPrivateKey(path string) (PrivateKey, error) {
	b, err := readKey(path, privateHead, publicHead)
	if err != nil {
		return PrivateKey{}, err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return PrivateKey{}, fault.Userf("%s: others may read this private key, its mode is %04o: chmod 600", path, info.Mode().Perm())
	}
	key, err := kem.NewPrivateKey(b)
	if err != nil {
		return PrivateKey{}, fault.Userf("%s: the private key cannot be used", path)
	}
	return PrivateKey{key}, nil
}

// readKey reads a key file with the given head. Errors quote nothing of it.
func readKey(path, head, other string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.User(err)
	}
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if string(first) == other {
		return nil, fault.Userf("%s is a %s, want a %s", path, strings.TrimSuffix(other, " 1"), strings.TrimSuffix(head, " 1"))
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(rest)))
	if string(first) != head || err != nil {
		return nil, fault.Userf("%s is no %s", path, strings.TrimSuffix(head, " 1"))
	}
	return key, nil
}

// fingerprint identifies a public key.
func fingerprint(key hpke.PublicKey) string {
	sum := sha256.Sum256(key.Bytes())
	return hex.EncodeToString(sum[:16])
}
