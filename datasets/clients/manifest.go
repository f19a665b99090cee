package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/numeric"
)

// ManifestSuffix follows the name of an imported file in the name of its manifest.
const ManifestSuffix = ".manifest.json"

// Manifest says what an import read, did and left out. Its counts depend on single texts: it is as private as the file.
type Manifest struct {
	Program    string           `json:"program"`
	Name       string           `json:"name"`
	Unit       string           `json:"unit"`
	Output     FileHash         `json:"output"`
	Sources    []FileHash       `json:"sources"`
	Options    ImportOptions    `json:"options"`
	TextsRead  int64            `json:"texts_read"`
	Splits     map[Split]Counts `json:"splits"`
	LeftOut    LeftOut          `json:"left_out"`
	Filtered   *Filtered        `json:"filtered,omitempty"`   // parts taken out of texts
	Duplicates []Duplicates     `json:"duplicates,omitempty"` // texts that were left out, by border
}

// FileHash identifies a file. A folder's hash is over the paths and hashes of its files.
type FileHash struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Split  Split  `json:"split,omitempty"` // of all its texts, where one was given
}

// Duplicates counts the texts of a split that repeat texts of a stricter side.
type Duplicates struct {
	Split Split  `json:"split"`
	Of    string `json:"of"` // public text, test or validation
	Texts int    `json:"texts"`
}

// Why texts or clients are left out.
const (
	blankText      = "blank text"
	noDate         = "no date"
	tooEarly       = "before the first date"
	tooLate        = "after the last date"
	otherSplit     = "of an earlier split than the client's newest text"
	fewWords       = "too few words"
	nothingLeft    = "nothing left of the text"
	onlyDuplicates = "client of duplicates only"
	fewTexts       = "client with too few texts"
	manyTexts      = "above the most texts of a client"
	overClients    = "client outside of the subset"
	badRow         = "bad row: " // and what is wrong with it
)

// LeftOut has an entry for each reason.
type LeftOut []LeftOutCount

// LeftOutCount counts what was left out for a reason.
type LeftOutCount struct {
	Reason  string `json:"reason"`
	Texts   int    `json:"texts"`
	Clients int    `json:"clients,omitempty"` // that have no text left
}

func (l LeftOut) String() string {
	if len(l) == 0 {
		return "nothing was left out"
	}
	parts := numeric.Map(l, func(c LeftOutCount) string { return fmt.Sprintf("%s: %d texts", c.Reason, c.Texts) })
	return strings.Join(parts, ", ")
}

func (m *Manifest) leaveOut(reason string, texts, clients int) {
	m.LeftOut.count(reason, texts, clients)
}

func (l *LeftOut) count(reason string, texts, clients int) {
	if texts == 0 && clients == 0 {
		return
	}
	at := slices.IndexFunc(*l, func(c LeftOutCount) bool { return c.Reason == reason })
	if at < 0 {
		at = len(*l)
		*l = append(*l, LeftOutCount{Reason: reason})
	}
	(*l)[at].Texts += texts
	(*l)[at].Clients += clients
}

// write completes the manifest and writes it next to the output.
func (m *Manifest) write(out string, files []ImportFile) error {
	for _, f := range files {
		h, err := hashFile(f.Path)
		if err != nil {
			return err
		}
		h.Split = f.Split
		m.Sources = append(m.Sources, h)
	}
	var err error
	if m.Output, err = hashFile(out); err != nil {
		return err
	}
	m.Output.Path = filepath.Base(out)
	return atomicfile.WriteJSON(out+ManifestSuffix, m)
}

func hashFile(path string) (FileHash, error) {
	h := FileHash{Path: path}
	info, err := os.Stat(path)
	if err != nil {
		return h, err
	}
	if !info.IsDir() {
		h.Bytes = info.Size()
		h.SHA256, err = atomicfile.SHA256(path)
		return h, err
	}
	all := sha256.New()
	err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() { // of a link, the file is read
			return err
		}
		one, err := hashFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(path, file)
		h.Bytes += one.Bytes
		fmt.Fprintf(all, "%q %s\n", filepath.ToSlash(name), one.SHA256)
		return err
	})
	h.SHA256 = hex.EncodeToString(all.Sum(nil))
	return h, err
}
