package aggregate

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"

	"popri/fedsim/sealing"
)

// Report carries one share of a client's vector to one aggregator.
type Report struct {
	Version      uint64
	Announcement []byte
	Client       []byte // public key
	Encapsulated []byte
	Sealed       []byte
	Signature    []byte
}

func (r *Report) fields() []any {
	return []any{&r.Version, &r.Announcement, &r.Client, &r.Encapsulated, &r.Sealed, &r.Signature}
}

// info separates sealed shares from other uses of an aggregator's key.
const info = "popri share 1"

// ReportID names a client's report about an announcement, at both aggregators: of a client, an announcement gets one
// report.
type ReportID [16]byte

func reportID(announcement ID, client []byte) ReportID {
	h := sha256.New()
	h.Write([]byte("popri report 1\n"))
	h.Write(announcement[:])
	h.Write(client)
	return ReportID(h.Sum(nil)[:16])
}

// associated is what a sealed share is bound to.
func associated(a *Announcement, role Role, client []byte) []byte {
	id := reportID(a.ID(), client)
	return append(append([]byte(string(role)+"\n"), id[:]...), a.Encode()...)
}

// signed is what the client signs: the message without its signature, and to whom it goes.
func (r *Report) signed(role Role) []byte {
	bare := *r
	bare.Signature = nil
	return append([]byte(info+" "+string(role)+"\n"), encode(&bare)...)
}

// Seal makes the report that carries a share to an aggregator: sealed to its key, bound to the announcement and signed
// by the client.
func Seal(a *Announcement, role Role, to sealing.PublicKey, client ed25519.PrivateKey, share []byte) ([]byte, error) {
	id := a.ID()
	r := &Report{Version: Version, Announcement: id[:], Client: client.Public().(ed25519.PublicKey)}
	encapsulated, sender, err := to.Sender(info)
	if err != nil {
		return nil, fmt.Errorf("aggregate: seal a share: %w", err)
	}
	r.Encapsulated = encapsulated
	if r.Sealed, err = sender.Seal(associated(a, role, r.Client), share); err != nil {
		return nil, fmt.Errorf("aggregate: seal a share: %w", err)
	}
	r.Signature = ed25519.Sign(client, r.signed(role))
	return encode(r), nil
}

// open decrypts the share of a report and checks its length.
func (r *Report) open(a *Announcement, role Role, key sealing.PrivateKey) ([]byte, error) {
	share, err := key.Open(info, r.Encapsulated, associated(a, role, r.Client), r.Sealed)
	if err != nil {
		return nil, err
	}
	want, err := a.shareBytes(role)
	if err == nil && len(share) != want {
		err = fmt.Errorf("the share has %d bytes, want %d", len(share), want)
	}
	return share, err
}

// overhead bounds the bytes of a report besides its share.
const overhead = 2048

// MaxReport is the largest message that can be a report to an aggregator.
func MaxReport(a *Announcement, role Role) int64 {
	n, _ := a.shareBytes(role) // it has no error: the announcement is valid
	return int64(n) + overhead
}
