package ledger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
)

const headName = ".head"

// head is what the file beside the ledger holds.
type head struct {
	lines int
	last  string
}

func writeHead(path string, h head) error {
	if err := atomicfile.WriteBytes(path+headName, fmt.Appendf(nil, "%d %s\n", h.lines, h.last)); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// checkHead compares the ledger with its head. A crash between the two writes leaves the ledger one line ahead; a
// ledger that is behind its head was cut.
func checkHead(path string, c content) error {
	b, err := os.ReadFile(path + headName)
	if err != nil {
		return fmt.Errorf("%w: its head cannot be read, so nobody knows how long it was: %w", ErrDamaged, err)
	}
	var h head
	if n, err := fmt.Fscanf(bytes.NewReader(b), "%d %s\n", &h.lines, &h.last); n != 2 || err != nil || !isHash(h.last) {
		return fmt.Errorf("%w: %s is not a line count and a hash", ErrDamaged, filepath.Base(path)+headName)
	}
	switch lines := c.lines(); {
	case h.lines > lines:
		return fmt.Errorf("%w: it has %d complete lines, and had %d: it was cut short after line %d", ErrDamaged,
			lines, h.lines, lines)
	case h.lines < 1 || h.last != c.hashes[h.lines-1] || h.lines < lines-1:
		return fmt.Errorf("%w: its head says %d lines ending in %.12s…, which its %d lines do not bear out",
			ErrDamaged, h.lines, h.last, lines)
	}
	return nil
}
