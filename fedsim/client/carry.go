package client

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/internal/atomicfile"
	"popri/internal/fault"
)

// carrier is what a client reaches an aggregator by.
type carrier interface {
	Current(context.Context) (*aggregate.Announcement, error)
	File(ctx context.Context, hash []byte) ([]byte, error)
	Enrolled(ctx context.Context, key ed25519.PublicKey) bool
	Report(ctx context.Context, content []byte) error
	Close()
}

// announcementFile is the announcement in a folder that is carried.
const announcementFile = "announcement.bin"

// folder is an aggregator whose messages somebody else carries.
type folder struct {
	dir  string
	role aggregate.Role
}

func reportFile(role aggregate.Role) string { return string(role) + ".report" }

// Current implements carrier.
func (f folder) Current(context.Context) (*aggregate.Announcement, error) {
	content, err := os.ReadFile(filepath.Join(f.dir, announcementFile))
	if err != nil {
		return nil, fault.User(err)
	}
	return aggregate.ParseAnnouncement(content)
}

// File implements carrier. The caller compares the hash.
func (f folder) File(_ context.Context, hash []byte) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(f.dir, hex.EncodeToString(hash)))
	return content, fault.User(err)
}

// Enrolled implements carrier: a folder cannot tell.
func (f folder) Enrolled(context.Context, ed25519.PublicKey) bool { return true }

// Report implements carrier.
func (f folder) Report(_ context.Context, content []byte) error {
	return atomicfile.WriteBytes(filepath.Join(f.dir, reportFile(f.role)), content)
}

// Close implements carrier.
func (f folder) Close() {}

// Fetch writes the announcement that reports are taken for, and its files, into a folder that can be carried to
// clients. Both aggregators must announce the same.
func Fetch(ctx context.Context, f *identity.Federation, dir string) (*aggregate.Announcement, error) {
	remotes, err := connect(f)
	if err != nil {
		return nil, err
	}
	announced := map[aggregate.Role]*aggregate.Announcement{}
	for role, r := range remotes {
		defer r.Close()
		if announced[role], err = r.Current(ctx); err != nil {
			return nil, fmt.Errorf("client: the %s: %w", role, err)
		}
	}
	a, other := announced[aggregate.Leader], announced[aggregate.Helper]
	if a == nil || other == nil || a.ID() != other.ID() {
		return nil, fault.Userf("client: the two aggregators announce nothing, or not the same")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.User(err)
	}
	for _, hash := range [][]byte{a.Question, a.Encoder} {
		if len(hash) == 0 {
			continue
		}
		content, err := remotes[aggregate.Leader].File(ctx, hash)
		if err == nil {
			err = atomicfile.WriteBytes(filepath.Join(dir, hex.EncodeToString(hash)), content)
		}
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	return a, atomicfile.WriteBytes(filepath.Join(dir, announcementFile), a.Encode())
}

// Send uploads the reports in folders of clients. What one of them lacks, or an aggregator refuses, does not keep the
// others from being sent; the error names each.
func Send(ctx context.Context, f *identity.Federation, dirs []string) (err error) {
	remotes, err := connect(f)
	if err != nil {
		return err
	}
	for _, r := range remotes {
		defer r.Close()
	}
	for _, dir := range dirs {
		for role, r := range remotes {
			content, failed := os.ReadFile(filepath.Join(dir, reportFile(role)))
			if failed == nil {
				failed = r.Report(ctx, content)
			} else {
				failed = fault.User(failed)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("client: %s: the %s: %w", dir, role, failed))
			}
		}
	}
	return err
}

func connect(f *identity.Federation) (map[aggregate.Role]*service.Remote, error) {
	secrets, err := f.ClientTLS("")
	if err != nil {
		return nil, err
	}
	remotes := map[aggregate.Role]*service.Remote{}
	for _, role := range aggregate.Roles {
		remotes[role] = service.NewRemote(f.Party(role).URL, role, secrets)
	}
	return remotes, nil
}

// carriers reach both aggregators by HTTPS, or by a folder if one is named. tell, if not nil, hears what is waited for.
func carriers(f *identity.Federation, dir string, tell func(string)) (map[aggregate.Role]carrier, error) {
	out := map[aggregate.Role]carrier{}
	remotes, err := connect(f)
	if err != nil {
		return nil, err
	}
	for role, remote := range remotes {
		if tell != nil {
			remote.Tell(role, tell)
		}
		if out[role] = remote; dir != "" {
			out[role] = folder{dir, role}
		}
	}
	return out, nil
}
