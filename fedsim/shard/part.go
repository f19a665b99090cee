package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"popri/fedsim/sealing"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/scoring/query"
)

// Assignment says how clients are divided among shards.
type Assignment string

const (
	// ByID gives each client the shard that the hash of its ID names ([Of]), so that no client can be in two shards.
	ByID Assignment = "id"
	// ByFile takes all clients of a file. Whoever uses it vouches that no client is in two files: a client that is
	// counted twice moves the sum by twice its bound.
	ByFile Assignment = "file"
)

// MaxShards is the largest number of shards of a question.
const MaxShards = 1 << 16

// Of is the shard, from 1 to n, of the client with this ID: SHA-256 of the ID, its first eight bytes modulo n.
func Of(id string, n int) int {
	sum := sha256.Sum256([]byte(id))
	return int(binary.BigEndian.Uint64(sum[:])%uint64(n)) + 1
}

// Members are the clients of a shard, without their names.
type Members struct {
	Count int
	// fingerprint is the exclusive or of the hashes of their IDs: the same for the same clients in any order. It is
	// secret.
	fingerprint [sha256.Size]byte
}

// Add takes a client into the shard.
func (m *Members) Add(id string) {
	m.Count++
	sum := sha256.Sum256([]byte(id))
	for i, b := range sum {
		m.fingerprint[i] ^= b
	}
}

// Place is a shard's place among all.
type Place struct {
	Shard, Of  int // from 1
	Assignment Assignment
}

func (p Place) String() string { return fmt.Sprintf("%d/%d", p.Shard, p.Of) }

// ParsePlace reads "i/N". wholeFile says that the shard is a file's clients, not those of an ID's hash.
func ParsePlace(text string, wholeFile bool) (Place, error) {
	p := Place{Assignment: ByID}
	if wholeFile {
		p.Assignment = ByFile
	}
	first, second, ok := strings.Cut(text, "/")
	var errs [2]error
	p.Shard, errs[0] = strconv.Atoi(first)
	p.Of, errs[1] = strconv.Atoi(second)
	if !ok || errors.Join(errs[:]...) != nil {
		return p, fault.Userf("the shard is %q, want i/N, such as 2/3", text)
	}
	return p, p.Validate()
}

// Validate returns an error that names a bad value.
func (p Place) Validate() error {
	switch {
	case p.Of < 1 || p.Of > MaxShards || p.Shard < 1 || p.Shard > p.Of:
		return fault.Userf("the shard is %s, want i/N with 1 ≤ i ≤ N ≤ %d", p, MaxShards)
	case p.Assignment != ByID && p.Assignment != ByFile:
		return fault.Userf("clients are assigned to shards by %q, want %q or %q", p.Assignment, ByID, ByFile)
	}
	return nil
}

// Part is a partial sum as it lies on disk: encrypted. Its fields are not: they are associated data, so that a change
// of one makes the sum unreadable.
type Part struct {
	Format       string     `json:"format"`
	Question     string     `json:"question"` // the question's ID
	Round        int        `json:"round"`
	Query        string     `json:"query"`
	Key          string     `json:"key"`
	Encoder      string     `json:"encoder"`
	Bound        float64    `json:"norm_bound"`
	Shard        int        `json:"shard"`
	Of           int        `json:"of"`
	Assignment   Assignment `json:"assignment"`
	Clients      int        `json:"clients"`
	Shape        [][2]int   `json:"shape"`     // exponent and number of values of each block
	Recipient    string     `json:"recipient"` // fingerprint of the merger's public key
	Encapsulated []byte     `json:"encapsulated"`

	path   string
	line   []byte // the header as it is in the file, with its end of line
	sealed []byte
}

const partFormat = "popri partial sum 1"

// info separates these ciphertexts from those of other uses of a key.
const info = partFormat

// Limits of a part's claims, so that a file cannot make the merger allocate more than the file's size.
const (
	maxHeader = 1 << 16
	maxBlocks = 8
	tagBytes  = 16
)

// Place is where the part belongs.
func (p *Part) Place() Place { return Place{p.Shard, p.Of, p.Assignment} }

// Seal encrypts the exact sum over a shard's clients to the merger and writes it to path.
func Seal(path string, to sealing.PublicKey, q Question, place Place, members Members, sum query.Partial) error {
	if err := place.Validate(); err != nil {
		return err
	}
	encapsulated, sender, err := to.Sender(info)
	if err != nil {
		return fmt.Errorf("shard: encrypt a partial sum: %w", err)
	}
	line, err := header(Part{Format: partFormat, Question: q.ID, Round: q.Round, Query: q.Name, Key: q.Key,
		Encoder: q.Encoder, Bound: q.Bound, Shard: place.Shard, Of: place.Of, Assignment: place.Assignment,
		Clients:   members.Count,
		Shape:     sum.Shape(),
		Recipient: to.Fingerprint(), Encapsulated: encapsulated})
	if err != nil {
		return fmt.Errorf("shard: the header of a partial sum: %w", err)
	}
	sealed, err := sender.Seal(line, sum.AppendTo(members.fingerprint[:]))
	if err != nil {
		return fmt.Errorf("shard: encrypt a partial sum: %w", err)
	}
	return atomicfile.WriteBytes(path, append(line, sealed...))
}

// header is a part's first line. Spaces fill it up to the length with the largest numbers, so that the length of a file
// tells nothing of its shard.
func header(p Part) ([]byte, error) {
	line, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	p.Shard, p.Of, p.Assignment, p.Clients = MaxShards, MaxShards, ByFile, maxClients
	longest, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	line = append(line, bytes.Repeat([]byte{' '}, max(0, len(longest)-len(line)))...)
	return append(line, '\n'), nil
}

// ErrPart marks a file that is no partial sum, or not the one that is wanted.
var ErrPart = errors.New("the partial sum is refused")

func refused(path, format string, args ...any) error {
	return fault.Userf("%s: %w: %w", path, ErrPart, fmt.Errorf(format, args...))
}

// ReadPart reads the file of a partial sum, without decrypting it.
func ReadPart(path string) (*Part, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.User(err)
	}
	return parsePart(path, content)
}

func parsePart(path string, content []byte) (*Part, error) {
	end := bytes.IndexByte(content[:min(len(content), maxHeader)], '\n') + 1
	p := &Part{path: path}
	if end == 0 || json.Unmarshal(content[:end], p) != nil || p.Format != partFormat {
		return nil, refused(path, "it does not begin with the header of %q", partFormat)
	}
	p.line, p.sealed = content[:end], content[end:]
	if err := p.Place().Validate(); err != nil {
		return nil, refused(path, "%w", err)
	}
	if p.Clients < 0 || p.Clients > maxClients || len(p.Shape) > maxBlocks {
		return nil, refused(path, "it claims %d clients and %d blocks", p.Clients, len(p.Shape))
	}
	bytes := sha256.Size + tagBytes
	for _, s := range p.Shape {
		if s[1] < 0 || s[1] > len(content)/16 {
			return nil, refused(path, "it claims %d values in %d bytes", s[1], len(content))
		}
		bytes += 16 * s[1]
	}
	if len(p.sealed) != bytes {
		return nil, refused(path, "%d bytes follow its header, want %d: it was cut or added to", len(p.sealed), bytes)
	}
	return p, nil
}

// opened is a part's content.
type opened struct {
	fingerprint [sha256.Size]byte
	sum         query.Partial
}

// open decrypts the part.
func (p *Part) open(key sealing.PrivateKey) (opened, error) {
	var o opened
	if own := key.Fingerprint(); p.Recipient != own {
		return o, refused(p.path, "it is encrypted to the key %.12s…, this key is %.12s…", p.Recipient, own)
	}
	content, err := key.Open(info, p.Encapsulated, p.line, p.sealed)
	if err != nil {
		return o, refused(p.path, "%w", err)
	}
	copy(o.fingerprint[:], content)
	if o.sum, err = query.ParsePartial(p.Shape, content[sha256.Size:]); err != nil {
		return o, refused(p.path, "%w", err)
	}
	return o, nil
}
