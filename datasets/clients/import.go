package clients

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"popri/datasets"
	"popri/datasets/records"
	"popri/internal/atomicfile"
	"popri/internal/extsort"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/internal/parquetio"
)

// ImportFile is a file to import.
type ImportFile struct {
	Path  string
	Split Split // of all its texts; empty: the file or the options say
}

// ImportOptions say how files become clients. Every field stands in the manifest.
type ImportOptions struct {
	records.Dialect
	Columns records.Columns `json:"columns"`

	// ClientPerText makes a client of each text, for files that name no clients. Lists of texts for validation and
	// test, as LargeFedBench's evaluation has them, need no such word.
	ClientPerText bool `json:"client_per_text,omitempty"`
	SkipBlank     bool `json:"skip_blank,omitempty"` // counts missing and blank texts and leaves them out; else they are errors

	// SkipBad is the most bad rows, or their largest fraction as in 2%, that are counted and left out; empty: every one
	// is an error. A file that cannot be read to its end is an error all the same.
	SkipBad    string `json:"skip_bad,omitempty"`
	DateFormat string `json:"date_format,omitempty"` // of dates, as DD/MM/YYYY hh:mm; empty: the forms of [dateOf]
	HTML       bool   `json:"html,omitempty"`        // texts are HTML, of which the plain text is kept

	// Shares of the clients for train, validation and test, by a hash of seed and ID. The zero value takes the splits
	// from the files, and 0.7, 0.1, 0.2 where nothing names a split.
	Shares [3]float64 `json:"split_shares"`
	Seed   uint64     `json:"seed"`

	Shape
	Deduplicate string   `json:"deduplicate"`      // of [Deduplications]
	Public      []string `json:"-"`                // texts that no client may have, with Deduplicate
	PublicFile  string   `json:"public,omitempty"` // where they come from

	Name     string                                `json:"name,omitempty"`
	Unit     string                                `json:"unit,omitempty"`
	Program  string                                `json:"-"` // the version, for the manifest
	Memory   int                                   `json:"-"` // bytes of a sorted run, the sorter's default if 0
	Progress func(stage string, done, total int64) `json:"-"` // may be nil

	layout string // of DateFormat, as package time has them
}

// defaultShares are the split where nothing names another.
var defaultShares = [3]float64{0.7, 0.1, 0.2}

// Validate reports the first impossible option.
func (o *ImportOptions) Validate() (err error) {
	if o.layout, err = dateLayout(o.DateFormat); err != nil {
		return err
	}
	if _, err := o.mostBad(0); err != nil {
		return err
	}
	sum := 0.0
	for _, s := range o.Shares {
		if !(s >= 0) {
			return fault.Userf("a split's share is %g, want 0 or more", s)
		}
		sum += s
	}
	if sum != 0 && math.Abs(sum-1) > 1e-9 {
		return fault.Userf("the splits' shares %v add up to %.6g, want 1", o.Shares, sum)
	}
	if !slices.Contains(Deduplications, o.Deduplicate) {
		return fault.Userf("deduplication is %q, want one of %q", o.Deduplicate, Deduplications)
	}
	if o.PublicFile != "" && o.Deduplicate == NoDeduplication {
		return fault.Userf("public text goes with deduplication exact or near")
	}
	if o.dated() && sum != 0 {
		return fault.Userf("the split is by date or by shares, not both")
	}
	return o.Shape.validate()
}

// Import writes the client file out of other files and its manifest next to it, at out + [ManifestSuffix]. Records are
// sorted by client in temporary files in the folder of out, so memory grows with the largest client, which is bounded,
// and the number of texts that duplicates are looked for in, not with the files. Equal files and options give equal
// bytes. Errors name files and rows, quote no cell, and leave out as it was.
func Import(ctx context.Context, out string, files []ImportFile, o ImportOptions) (*Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	if chosen := o.dated() || o.Shares != [3]float64{}; chosen && (o.Columns.Split != "" ||
		slices.ContainsFunc(files, func(f ImportFile) bool { return f.Split != "" })) {
		return nil, fault.Userf("clients: the split is named by files or by a column, and chosen by date or by shares: want one")
	}
	for _, path := range []string{out, out + ManifestSuffix} {
		if err := atomicfile.Check(path); err != nil {
			return nil, fault.Userf("clients: %w", err)
		}
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	dir, remove, err := filelock.TempFolder(filepath.Dir(out), atomicfile.TempPrefix+"import-")
	if err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	defer remove()
	m := &Manifest{Program: o.Program, Options: o, Splits: map[Split]Counts{Train: {}, Validation: {}, Test: {}},
		LeftOut: LeftOut{}}
	i := &importer{ctx: ctx, files: files, o: o, m: m, dir: dir, sorter: extsort.New(dir, o.Memory)}
	defer i.sorter.Close()
	if err := i.run(out); err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	return m, nil
}

// importer carries the stages: records are read and sorted by client, clients are shaped and stored by split,
// duplicates over borders are taken out, and what is left is written in the order of IDs.
type importer struct {
	ctx      context.Context
	files    []ImportFile
	o        ImportOptions
	m        *Manifest
	dir      string
	sorter   *extsort.Sorter
	named    bool // some texts have a split that the files or the options name
	drawn    bool // some have none: it is drawn for each client
	problems problems
}

func (i *importer) run(out string) error {
	if err := i.read(); err != nil {
		return err
	}
	shaped := map[Split]*spool{}
	for _, s := range Splits {
		var err error
		if shaped[s], err = newSpool(i.dir); err != nil {
			return err
		}
		defer shaped[s].close()
	}
	if err := i.shape(shaped); err != nil {
		return err
	}
	kept, err := i.borders(shaped)
	if err != nil {
		return err
	}
	return i.write(out, kept)
}

// shape puts sorted records together to clients and stores each in its split.
func (i *importer) shape(shaped map[Split]*spool) error {
	var c imported
	store := func() error {
		if len(c.texts) == 0 {
			return nil
		}
		split, ok := i.split(&c)
		if !ok {
			return nil
		}
		i.filter(&c)
		if err := i.cut(&c); err != nil {
			return err
		}
		if i.o.Deduplicate == NoDeduplication && !i.limit(&c) || len(c.texts) == 0 {
			return nil
		}
		return shaped[split].add(&c)
	}
	done, held := int64(0), 0
	err := i.sorter.Each(func(key string, value []byte) error {
		if done++; done%1024 == 0 {
			i.o.Progress("shape", done, i.m.TextsRead)
			if err := i.ctx.Err(); err != nil {
				return err
			}
		}
		if key != c.id {
			if err := store(); err != nil {
				return err
			}
			c, held = imported{id: key}, 0
		}
		c.texts = append(c.texts, decodeText(value))
		held += len(value)
		return i.bound(&c, len(c.texts), held)
	})
	if err == nil {
		err = store()
	}
	if err != nil {
		return err
	}
	return i.problems.err()
}

// A client is in memory as a whole.
const (
	mostTexts     = 1 << 20
	mostTextBytes = 512 << 20
)

// bound refuses a client of too many texts or bytes, which most often means another column than the clients'.
func (i *importer) bound(c *imported, texts, bytes int) error {
	if texts <= mostTexts && bytes <= mostTextBytes {
		return nil
	}
	first := c.texts[0]
	return fmt.Errorf("%s: %w: the client of %s has more than %d texts or %d MiB: name the column of clients, or "+
		"divide it", i.files[first.file].Path, parquetio.ErrFormat, first.position, mostTexts, mostTextBytes>>20)
}

// write writes what is left of all splits in the order of IDs, and the manifest.
func (i *importer) write(out string, kept map[Split]*spool) error {
	chosen := map[Split]func(id string) bool{}
	for s, n := range map[Split]int{Train: i.o.Clients, Validation: i.o.ValidationClients, Test: i.o.TestClients} {
		var err error
		if chosen[s], err = i.choose(kept[s], s, n); err != nil {
			return err
		}
	}
	total := int64(0)
	for _, s := range Splits {
		total += kept[s].clients
	}
	if total == 0 {
		return fault.Userf("nothing is left to write: %s", i.m.LeftOut)
	}
	i.m.Name, i.m.Unit = cmp.Or(i.o.Name, strings.SplitN(filepath.Base(i.files[0].Path), ".", 2)[0]), i.unit()
	if i.drawn {
		i.m.Options.Shares = defaultShares
	}
	metadata := parquetio.Metadata{nameKey: i.m.Name, unitKey: i.m.Unit}
	err := atomicfile.Write(out, func(w io.Writer) error {
		rows := parquetio.NewWriter[row](w, metadata)
		held, done := 0, int64(0)
		err := merge(kept, func(s Split, c *imported) error {
			if done++; done%256 == 0 {
				i.o.Progress("write", done, total)
				if err := i.ctx.Err(); err != nil {
					return err
				}
			}
			if !chosen[s](c.id) {
				i.m.leaveOut(overClients, len(c.texts), 1)
				return nil
			}
			n := i.m.Splits[s]
			n.Clients++
			n.Texts += len(c.texts)
			for _, t := range c.texts {
				n.Words += datasets.CountWords(t.text)
				if held += len(t.text); held > rowGroupBytes {
					held = 0
					if err := rows.Flush(); err != nil {
						return err
					}
				}
				if err := rows.Write(row{c.id, string(s), t.date, t.label, t.text}); err != nil {
					return err
				}
			}
			i.m.Splits[s] = n
			return nil
		})
		if err != nil {
			return err
		}
		return rows.Close()
	})
	if err != nil {
		return err
	}
	return i.m.write(out, i.files)
}

// rowGroupBytes bounds the text of a row group, which the writer holds in memory.
const rowGroupBytes = 32 << 20

// unit says what a client is, and which filters decide the number of clients: that number is published without noise.
func (i *importer) unit() string {
	unit, filters := i.unfiltered(), []string{}
	if i.o.MinTexts > 1 {
		filters = append(filters, fmt.Sprintf("clients with fewer than %d texts", i.o.MinTexts))
	}
	if d := i.o.Deduplicate; d != "" && d != NoDeduplication {
		filters = append(filters, d+" duplicates")
	}
	if len(filters) == 0 {
		return unit
	}
	return unit + "; the import left out " + strings.Join(filters, " and ") + ", so the number of clients, which is published " +
		"without noise, depends on texts"
}

func (i *importer) unfiltered() string {
	switch {
	case i.o.Unit != "":
		return i.o.Unit
	case i.o.ClientPerText:
		return "a client is one text"
	}
	of := " of " + filepath.Base(i.files[0].Path)
	switch format, _ := records.FormatOf(i.files[0].Path, i.o.Format); format {
	case records.Folder:
		return "a client is one file, or one folder with all its files," + of
	case records.JSON:
		return "a client is one key" + of
	case records.Mailbox:
		return "a client is one sender" + of
	}
	return "a client is one " + cmp.Or(i.o.Columns.Client, "client_id") + of
}
