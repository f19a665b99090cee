package clients

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"popri/datasets/records"
	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/parquetio"
)

// problems are the faults of a file's content. The first ones are shown, all are counted by kind.
type problems struct {
	shown []string
	n     int
	kinds LeftOut
}

// add notes a problem: its kind and what is said of this one.
func (p *problems) add(path string, position records.Position, kind, format string, args ...any) {
	const most = 3
	if p.n++; p.n <= most {
		p.shown = append(p.shown, fmt.Sprintf("%s: %s: %s%s", path, position, kind, fmt.Sprintf(format, args...)))
	}
	p.kinds.count(badRow+kind, 1, 0)
}

func (p *problems) err() error {
	if p.n == 0 {
		return nil
	}
	more := ""
	if n := p.n - len(p.shown); n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("%w: %s%s", parquetio.ErrFormat, strings.Join(p.shown, "; "), more)
}

var errStop = errors.New("stop")

// read reads all files, checks each record, and hands it to the sorter under its client.
func (i *importer) read() error {
	prefixes := map[string]int{}
	for number, file := range i.files {
		base := filepath.Base(file.Path)
		prefix := strings.SplitN(base, ".", 2)[0]
		if prefixes[prefix]++; prefixes[prefix] > 1 {
			prefix = fmt.Sprintf("%s-%d", prefix, prefixes[prefix])
		}
		in := intake{importer: i, file: file, number: number, prefix: prefix}
		stage := "read " + base
		o := records.Options{Dialect: i.o.Dialect, Columns: i.o.Columns,
			Progress: func(done, total int64) { i.o.Progress(stage, done, total) }}
		if i.o.SkipBad != "" {
			o.Bad = in.pass
		}
		if err := records.Read(file.Path, o, in.take); err != nil && err != errStop {
			return hint(err)
		}
		if in.taken == 0 {
			return fmt.Errorf("%s: %w: it holds no texts", file.Path, parquetio.ErrFormat)
		}
		if in.noClient != nil {
			return fmt.Errorf("%s: %w: %s names no client. Name the column of clients (--client), or make a client of "+
				"each text (--client-per-text)", file.Path, parquetio.ErrFormat, in.noClient)
		}
	}
	return i.skipBad()
}

// hint adds which option may help.
func hint(err error) error {
	switch {
	case errors.Is(err, records.ErrEncoding):
		return fmt.Errorf("%w (--encoding names the file's encoding, such as windows-1252)", err)
	case errors.Is(err, records.ErrQuotes):
		return fmt.Errorf("%w (--backslash, if a backslash escapes them)", err)
	}
	return err
}

// mostBad returns how many of a number of rows may be bad.
func (o *ImportOptions) mostBad(rows int64) (int, error) {
	if o.SkipBad == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(o.SkipBad, "%")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n <= 1e15) || percent && n > 100 || !percent && n != math.Trunc(n) {
		return 0, fault.Userf("the most bad rows are %q, want a number, or a fraction as in 2%%", o.SkipBad)
	}
	if percent {
		n = n / 100 * float64(rows)
	}
	return int(n), nil
}

// skipBad leaves out the bad rows that were met, if there are few enough of them.
func (i *importer) skipBad() error {
	most, err := i.o.mostBad(i.m.TextsRead)
	if err != nil {
		return err
	}
	if n := i.problems.n; n > most {
		if i.o.SkipBad == "" {
			return fmt.Errorf("%w (--skip-bad leaves out bad rows, --skip-blank blank texts)", i.problems.err())
		}
		return fmt.Errorf("%w; %d of %d rows are bad and %d may be (%s)", i.problems.err(), n, i.m.TextsRead, most,
			i.problems.kinds)
	}
	for _, k := range i.problems.kinds {
		i.m.leaveOut(k.Reason, k.Texts, 0)
	}
	i.problems = problems{}
	return nil
}

// pass notes a record that cannot be read and is passed over.
func (in *intake) pass(p records.Position, err *records.Error) error {
	in.taken++
	in.m.TextsRead++
	in.problems.add(in.file.Path, p, err.Kind(), " (%s)", err.Reason())
	return nil
}

// intake takes the records of one file.
type intake struct {
	*importer
	file     ImportFile
	number   int
	prefix   string // of the clients that are made of its texts
	taken    int64
	noClient *records.Position // of a text whose client nothing names
	frame    []byte
}

func (in *intake) take(r records.Record) error {
	if in.taken++; in.taken%1024 == 0 {
		if err := in.ctx.Err(); err != nil {
			return err
		}
	}
	in.m.TextsRead++
	bad := func(kind, format string, args ...any) error {
		in.problems.add(in.file.Path, r.Position, kind, format, args...)
		return nil
	}
	if in.o.HTML {
		r.Text.Value = strings.Join(strings.Fields(records.PlainText(r.Text.Value)), " ")
	}
	switch blank := strings.TrimSpace(r.Text.Value) == ""; {
	case blank && in.o.SkipBlank:
		in.m.leaveOut(blankText, 1, 0)
		return nil
	case r.Text.Null:
		return bad("text is null", "")
	case blank:
		return bad("text is blank", " (%d bytes)", len(r.Text.Value))
	case !utf8.ValidString(r.Text.Value):
		return bad("text is not UTF-8", ": %s", exactjson.IllFormed(r.Text.Value))
	case !utf8.ValidString(r.Label.Value):
		return bad("label is not UTF-8", ": %s", exactjson.IllFormed(r.Label.Value))
	}
	day, ok := dateOf(r.Date.Value, in.o.layout)
	if !ok && in.o.layout != "" {
		return bad("date is no date of the form "+in.o.DateFormat, ", it has %d bytes", len(r.Date.Value))
	}
	if !ok {
		return bad("date is no date of a known form, such as YYYY-MM-DD with or without a time",
			", it has %d bytes (--date-format names another form, such as DD/MM/YYYY)", len(r.Date.Value))
	}
	if reason := in.o.window(day); reason != "" {
		in.m.leaveOut(reason, 1, 0)
		return nil
	}
	split, fault, detail := in.splitOf(r)
	if fault != "" {
		return bad(fault, "%s", detail)
	}
	id, ok := in.clientOf(r, split)
	if !ok {
		if in.noClient != nil {
			return errStop
		}
		return nil
	}
	t := importedText{r.Text.Value, day, r.Label.Value, split, in.number, r.Position}
	in.frame = t.encode(in.frame[:0])
	return in.sorter.Add(id, in.frame)
}

// splitOf returns the split that is named for a record, empty if a date or a draw decides, or what is wrong with it.
func (in *intake) splitOf(r records.Record) (named Split, kind, detail string) {
	if in.o.Shares != [3]float64{} || in.o.dated() {
		return "", "", ""
	}
	has := in.file.Split != "" || r.HasSplit
	in.named, in.drawn = in.named || has, in.drawn || !has
	switch s := Split(r.Split.Value); {
	case in.named && in.drawn:
		return "", "some texts have a split and some have none", ""
	case !has:
		return "", "", ""
	case in.file.Split != "":
		return in.file.Split, "", ""
	case r.Split.Null:
		return "", "split is null", ""
	case !s.Valid():
		return "", "split is none of train, validation and test", fmt.Sprintf(", it has %d bytes", len(s))
	default:
		return s, "", ""
	}
}

// clientOf returns the record's client. A fault is noted.
func (in *intake) clientOf(r records.Record, split Split) (string, bool) {
	switch {
	case in.o.ClientPerText, !r.HasClient && r.Position.Unit == "entry" && (split == Validation || split == Test):
		return fmt.Sprintf("%s/%07d", in.prefix, in.taken-1), true
	case !r.HasClient:
		in.noClient = &r.Position
		return "", false
	case r.Client.Null:
		in.problems.add(in.file.Path, r.Position, "client_id is null", "")
	case strings.TrimSpace(r.Client.Value) == "":
		in.problems.add(in.file.Path, r.Position, "client_id is blank", "")
	case !utf8.ValidString(r.Client.Value):
		in.problems.add(in.file.Path, r.Position, "client_id is not UTF-8", ": %s", exactjson.IllFormed(r.Client.Value))
	default:
		return r.Client.Value, true
	}
	return "", false
}

// share draws a split by a hash of seed and client: a client's split does not change when other clients are added.
func (o *ImportOptions) share(id string) Split {
	shares := o.Shares
	if shares == [3]float64{} {
		shares = defaultShares
	}
	switch u := float64(hashOf("split", o.Seed, id)>>11) / (1 << 53); { // uniform in [0, 1)
	case u < shares[2]:
		return Test
	case u < shares[2]+shares[1]:
		return Validation
	}
	return Train
}

// hashOf is a hash of a client for a purpose and a seed.
func hashOf(purpose string, seed uint64, id string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%s", purpose, seed, id))
	return binary.BigEndian.Uint64(sum[:])
}
