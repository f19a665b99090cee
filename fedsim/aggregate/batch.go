package aggregate

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"popri/fedsim/aggregate/rangeproof"
	"popri/internal/atomicfile"
)

// The files of a batch.
const (
	announcementFile = "announcement.bin"
	reportsFile      = "reports.log"   // each report after its length; removed when the share is published
	frozenFile       = "frozen.bin"    // identifiers of all reports, in ascending order: nothing is taken any more
	pendingFile      = "share.pending" // noised, not yet known to be charged
	shareFile        = "share.bin"
	abandonedFile    = "abandoned.txt" // why there will be no share
)

// batch is what an aggregator holds about an announcement. Its reports stay sealed on disk.
type batch struct {
	*Announcement
	id   ID
	dir  string
	log  *os.File
	size int64
	held map[ReportID]place
	// frozen has the identifiers of all reports once nothing is taken any more; nil before, and when the batch is done.
	frozen []ReportID
	// done says that the batch has a share, or will have none.
	done bool
	// refused is the number of reports whose proofs did not hold.
	refused int
	// optimistic is the sum of this aggregator's shares of all reports whose proofs it has checked; nil if it must be
	// made again.
	optimistic rangeproof.Vector
}

// place is where a report is in the log.
type place struct {
	offset int64
	sum    [sha256.Size]byte
}

func (b *batch) path(name string) string { return filepath.Join(b.dir, name) }

func (b *batch) has(name string) bool {
	_, err := os.Stat(b.path(name))
	return err == nil
}

// openBatch reads a batch's folder.
func openBatch(dir string) (*batch, error) {
	content, err := os.ReadFile(filepath.Join(dir, announcementFile))
	if err != nil {
		return nil, err
	}
	a, err := ParseAnnouncement(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	b := &batch{Announcement: a, id: a.ID(), dir: dir, held: map[ReportID]place{}}
	b.done = b.has(shareFile) || b.has(abandonedFile)
	if b.has(countedFile) {
		if _, b.refused, err = b.countedReports(); err != nil {
			return nil, err
		}
	}
	if b.done {
		return b, b.forget()
	}
	if b.frozen, err = b.ids(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return b, b.openLog()
}

// openLog finds the reports again. While reports are taken, what a crash or a loss of power damaged is removed, with all
// that follows: the other aggregator may hold shares of these reports, and none of them counts.
func (b *batch) openLog() (err error) {
	if b.log, err = os.OpenFile(b.path(reportsFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	err = b.each(func(r *Report, content []byte, offset int64) error {
		b.held[reportID(b.id, r.Client)] = place{offset, sha256.Sum256(content)}
		b.size = offset + 4 + int64(len(content))
		return nil
	})
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !(b.frozen == nil && errors.Is(err, errDamaged)) {
		return fmt.Errorf("%s: %w", b.log.Name(), err)
	}
	return b.log.Truncate(b.size)
}

// errDamaged marks a report in the log that is none.
var errDamaged = errors.New("damaged")

// each reads all reports of the log in order.
func (b *batch) each(do func(r *Report, content []byte, offset int64) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(b.log, 0, 1<<62), 1<<16)
	var content []byte
	for offset := int64(0); ; {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		length := int64(binary.LittleEndian.Uint32(head[:]))
		if length == 0 { // what a file system may leave after a loss of power
			return io.ErrUnexpectedEOF
		}
		if length > MaxReport(b.Announcement, Leader) {
			return fmt.Errorf("%w: a report of %d bytes at byte %d", errDamaged, length, offset)
		}
		content = slices.Grow(content[:0], int(length))[:length]
		if _, err := io.ReadFull(in, content); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
		r := &Report{}
		if err := decode(content, r); err != nil {
			return fmt.Errorf("%w: the report at byte %d: %w", errDamaged, offset, err)
		}
		if err := do(r, content, offset); err != nil {
			return err
		}
		offset += 4 + length
	}
}

// append adds a report to the log. It is not flushed to the disk: a report that is lost with the machine's power is on
// one side only, so that neither aggregator counts it.
func (b *batch) append(id ReportID, content []byte) error {
	record := append(binary.LittleEndian.AppendUint32(nil, uint32(len(content))), content...)
	if _, err := b.log.WriteAt(record, b.size); err != nil {
		return errors.Join(err, b.log.Truncate(b.size))
	}
	b.held[id] = place{b.size, sha256.Sum256(content)}
	b.size += int64(len(record))
	return nil
}

// freeze ends the taking of reports and puts their identifiers on disk.
func (b *batch) freeze() error {
	ids := slices.AppendSeq(make([]ReportID, 0, len(b.held)), maps.Keys(b.held)) // not nil, if there are none, too
	slices.SortFunc(ids, compareIDs)
	if err := b.log.Sync(); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(b.path(frozenFile), AppendIDs(nil, ids)); err != nil {
		return err
	}
	b.frozen = ids
	return nil
}

// ids are the identifiers of all reports, from the disk.
func (b *batch) ids() ([]ReportID, error) {
	content, err := os.ReadFile(b.path(frozenFile))
	if err != nil {
		return nil, err
	}
	return ParseIDs(content), nil
}

// sum adds up the shares of the reports with these identifiers.
func (b *batch) sum(ids []ReportID, role Role, open func(*Report) ([]byte, error)) ([]uint64, error) {
	total, buffer := make([]uint64, b.Values), make([]byte, 8*b.Values)
	added := 0
	err := b.each(func(r *Report, _ []byte, offset int64) error {
		if _, wanted := slices.BinarySearchFunc(ids, reportID(b.id, r.Client), compareIDs); !wanted {
			return nil
		}
		share, err := open(r)
		if err != nil {
			return fmt.Errorf("the report at byte %d: %w", offset, err)
		}
		added++
		return role.add(total, share, buffer)
	})
	if err == nil && added != len(ids) {
		err = fmt.Errorf("%d reports are held, want %d", added, len(ids))
	}
	return total, err
}

// forget removes the reports of a batch that is done, and keeps in memory nothing that grows with their number.
func (b *batch) forget() error {
	if b.log != nil {
		b.log.Close()
		b.log = nil
	}
	b.held, b.frozen, b.optimistic = nil, nil, nil
	if err := os.Remove(b.path(reportsFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func compareIDs(a, b ReportID) int { return bytes.Compare(a[:], b[:]) }

// AppendIDs appends identifiers of reports, 16 bytes each.
func AppendIDs(out []byte, ids []ReportID) []byte {
	for _, id := range ids {
		out = append(out, id[:]...)
	}
	return out
}

// ParseIDs is the inverse of [AppendIDs]. What is no ascending list is empty.
func ParseIDs(b []byte) []ReportID {
	ids := make([]ReportID, 0, len(b)/16)
	for ; len(b) >= 16; b = b[16:] {
		id := ReportID(b[:16])
		if len(ids) > 0 && compareIDs(ids[len(ids)-1], id) >= 0 {
			return []ReportID{}
		}
		ids = append(ids, id)
	}
	return ids
}

// Intersect returns what is in both ascending lists.
func Intersect(a, b []ReportID) []ReportID {
	both := []ReportID{}
	for _, id := range a {
		if _, ok := slices.BinarySearchFunc(b, id, compareIDs); ok {
			both = append(both, id)
		}
	}
	return both
}

// full reports whether a batch has the reports of all clients whose reports are taken.
func (a *Aggregator) full(b *batch) bool {
	if len(b.held) < len(a.Enrolled)-len(a.Revoked) {
		return false
	}
	for key, taken := range a.enrolled {
		if _, held := b.held[reportID(b.id, []byte(key))]; taken && !held {
			return false
		}
	}
	return true
}
