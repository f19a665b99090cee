package sealing

import (
	"bytes"
	"crypto/hpke"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// The first lines of the key files; the key follows in base64. Files of earlier versions say "popri merger …".
const (
	privateHead = "popri private key 1"
	publicHead  = "popri public key 1"
)

// PublicSuffix follows the name of a private key's file in its public key's name.
const PublicSuffix = ".pub"

// The cipher suite: what is sealed stays secret even if X25519 or ML-KEM is broken later.
var (
	kem  = hpke.MLKEM768X25519()
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES256GCM()
)

// GenerateKey makes a key pair: the private key in a new file of mode 0600 at path, the public key next to it with
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
		return fmt.Errorf("sealing: make a key: %w", err)
	}
	secret, err := key.Bytes()
	if err != nil {
		return fmt.Errorf("sealing: make a key: %w", err)
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
	return fault.Userf("%s is there already: a new key would make unreadable what was encrypted to the old one; "+
		"name another file", path)
}

// PublicKey is the key of a recipient, to which others encrypt.
type PublicKey struct{ key hpke.PublicKey }

// PrivateKey is the recipient's key, which decrypts.
type PrivateKey struct{ key hpke.PrivateKey }

// ReadPublicKey reads the file of a public key.
func ReadPublicKey(path string) (PublicKey, error) {
	b, err := readKey(path, publicHead, privateHead)
	if err != nil {
		return PublicKey{}, err
	}
	key, err := ParsePublicKey(b)
	if err != nil {
		return PublicKey{}, fault.Userf("%s: %w", path, err)
	}
	return key, nil
}

// ParsePublicKey is the inverse of [PublicKey.Bytes].
func ParsePublicKey(b []byte) (PublicKey, error) {
	key, err := kem.NewPublicKey(b)
	if err != nil {
		return PublicKey{}, fmt.Errorf("the public key cannot be used: %w", err)
	}
	return PublicKey{key}, nil
}

// Bytes is the key as RFC 9180 writes it.
func (to PublicKey) Bytes() []byte { return to.key.Bytes() }

// Public is the public key of the pair.
func (k PrivateKey) Public() PublicKey { return PublicKey{k.key.PublicKey()} }

// Sender begins a ciphertext to the key: encapsulated goes with it, and sender.Seal encrypts one message. info says
// what the message is for, so that no ciphertext passes for one of another use.
func (to PublicKey) Sender(info string) (encapsulated []byte, sender *hpke.Sender, err error) {
	return hpke.NewSender(to.key, kdf, aead, []byte(info))
}

// ErrChanged marks a ciphertext that cannot be decrypted: it, its associated data or its use is another one than was
// encrypted.
var ErrChanged = errors.New("it cannot be decrypted: it was changed, or is for another key")

// Open decrypts the message of a [PublicKey.Sender] with the same info. Any error is [ErrChanged].
func (k PrivateKey) Open(info string, encapsulated, associated, sealed []byte) ([]byte, error) {
	recipient, err := hpke.NewRecipient(encapsulated, k.key, kdf, aead, []byte(info))
	if err != nil {
		return nil, ErrChanged
	}
	content, err := recipient.Open(associated, sealed)
	if err != nil {
		return nil, ErrChanged
	}
	return content, nil
}

// ReadPrivateKey reads the file of a private key. A file that others may read is refused.
func ReadPrivateKey(path string) (PrivateKey, error) {
	b, err := readKey(path, privateHead, publicHead)
	if err != nil {
		return PrivateKey{}, err
	}
	if info, err := os.Stat(path); err == nil && exposed(info) {
		return PrivateKey{}, fault.Userf("%s: others may read this private key, its mode is %04o: chmod 600", path,
			info.Mode().Perm())
	}
	key, err := kem.NewPrivateKey(b)
	if err != nil {
		return PrivateKey{}, fault.Userf("%s: the private key cannot be used", path)
	}
	return PrivateKey{key}, nil
}

// exposedTo reports whether a mode lets others read: the group too, unless the file is lent by root.
func exposedTo(mode fs.FileMode, lent bool) bool {
	if lent {
		return mode&0o037 != 0
	}
	return mode&0o077 != 0
}

// readKey reads a key file with the given head. Errors quote nothing of it.
func readKey(path, head, other string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.User(err)
	}
	line, rest, _ := bytes.Cut(content, []byte("\n"))
	first := strings.Replace(string(line), "merger ", "", 1)
	if first == other {
		return nil, fault.Userf("%s is a %s, want a %s", path, strings.TrimSuffix(other, " 1"), strings.TrimSuffix(head, " 1"))
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(rest)))
	if first != head || err != nil {
		return nil, fault.Userf("%s is no %s", path, strings.TrimSuffix(head, " 1"))
	}
	return key, nil
}
