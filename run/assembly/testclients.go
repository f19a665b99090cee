package assembly

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"popri/datasets/clients"
	"popri/internal/datakey"
	"popri/internal/fault"
)

// testClients is the record, next to the user's key, of who has seen figures of which test clients. A client whose
// figures without noise were seen once cannot be protected afterwards, by whatever run: they tell what the noise hides.
const testClients = "test-clients.jsonl"

// sketched is the number of clients by which sets of test clients are compared: two that share one in fifty are found
// with probability 0.99, and small sets are compared completely.
const sketched = 256

// seenLine is a line of the record.
type seenLine struct {
	Clients []string `json:"clients"` // [clients.Population.Sketch]
	Folder  string   `json:"folder"`  // of the figures, for the user; absolute
	Exact   bool     `json:"exact"`   // figures without noise
}

// seenPath is the record.
func seenPath() (string, error) {
	key, err := datakey.Path()
	return filepath.Join(filepath.Dir(key), testClients), fault.User(err)
}

// MayShow refuses, before a run spends anything, clients whose figures without noise [ExactFigures] would refuse. It writes
// nothing.
func MayShow(p *clients.Population) error {
	path, err := seenPath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return nil // nor is a key made
	}
	key, err := datakey.Load()
	if err != nil {
		return fault.User(err)
	}
	_, err = seenLine{Clients: p.Sketch(key, clients.Test, sketched), Exact: true}.against(path)
	return err
}

// ExactFigures records that figures of the test clients without noise go to a folder, before they are made. They are
// refused where some of the clients are protected. A record that cannot be written is no hindrance here; ProtectFigures
// insists on it.
func ExactFigures(p *clients.Population, folder string) error {
	err := seen(p, seenLine{Folder: folder, Exact: true})
	if errors.Is(err, errNoRecord) {
		return nil
	}
	return err
}

// ProtectFigures records that a folder holds noised figures of the test clients, who are protected from now on. It is
// refused where figures without noise exist of some of them.
func ProtectFigures(p *clients.Population, folder string) error {
	return seen(p, seenLine{Folder: folder})
}

var errNoRecord = errors.New("the record of whose figures were seen cannot be written")

// seen adds a line, unless it is there or contradicts another one. The record is read again afterwards, because another
// program may have added a line meanwhile.
func seen(p *clients.Population, line seenLine) error {
	key, err := datakey.Load()
	if err != nil {
		return fault.User(err)
	}
	path, err := seenPath()
	if err != nil {
		return err
	}
	if line.Clients = p.Sketch(key, clients.Test, sketched); len(line.Clients) == 0 {
		return nil
	}
	if line.Folder, err = filepath.Abs(line.Folder); err != nil {
		return fault.User(err)
	}
	known, err := line.against(path)
	if err != nil || known {
		return err
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fault.Userf("%w: %w", errNoRecord, err)
	} else if err != nil {
		return fault.Userf("the record of whose figures were seen: %w", err)
	}
	// The line feed before it ends a line that a full disk cut.
	_, err = f.Write(append(append([]byte("\n"), b...), '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fault.Userf("the record of whose figures were seen: %w", err)
	}
	_, err = line.against(path)
	return err
}

// against compares a line with the record. A line that a crash cut says nothing: its figures were not made.
func (line seenLine) against(path string) (known bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fault.Userf("the record of whose figures were seen: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var old seenLine
		if json.Unmarshal(lines.Bytes(), &old) != nil {
			continue
		}
		switch {
		case old.Exact == line.Exact:
			known = known || slices.Equal(old.Clients, line.Clients) && (line.Exact || old.Folder == line.Folder)
		case slices.ContainsFunc(line.Clients, func(c string) bool { return slices.Contains(old.Clients, c) }):
			if line.Exact {
				return false, fault.Userf("these test clients are protected: %s holds figures of them with noise, which "+
					"figures without noise would undo. If the protection is given up, remove its line from %s", old.Folder, path)
			}
			return false, fault.Userf("figures of these test clients without noise were made for %s, so they cannot be "+
				"protected. If nobody kept those figures, remove its line from %s", old.Folder, path)
		}
	}
	return known, lines.Err()
}
