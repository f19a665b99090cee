package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant"
	"popri/accountant/guarantee"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/rundir"
)

// Figure is one accountant's ε.
type Figure struct {
	Name    string  `json:"name"`
	Epsilon float64 `json:"-"`
	// Unknown says why the accountant has no bound for these charges; "" if it has one.
	Unknown string `json:"unknown,omitempty"`
}

// Report is the outcome of an audit.
type Report struct {
	Dir    string
	Record ledger.Record
	Facts  guarantee.Facts
	// Spent is ε by every accountant, at the budget's δ; Decides names the accountant that the ledger uses.
	Spent    []Figure
	Decides  string
	Epsilon  float64 // by that one
	Releases int     // found on disk, each with its charge
	// Query and Bound are what the last release says that the clients were asked, and how long a vector can be.
	Query string
	Bound float64
	// Head is the hash of the ledger's last line, to be kept elsewhere: see [Options].
	Head string
	// Noise is the test of each release's noise, and NoisePooled the test of all together. NoiseUntested names the
	// releases without a test and says why.
	Noise         []NoiseTest
	NoisePooled   *NoiseTest
	NoiseUntested []string
	// Unmeasured says that nothing at all could be said about the noise of a release that states noise.
	Unmeasured bool
	// Alone says that the folder holds a ledger without a run: of an aggregator, of a client, or of protected test
	// clients. What was asked is then not known here.
	Alone bool
	// Problems are the contradictions that were found: with any, the statement cannot be signed.
	Problems []string
	// Warnings name who or what is outside of the guarantee.
	Warnings []string

	options Options
	found   []foundRelease
	// unreleased has a file of each round that was made after a release and has none next to it.
	unreleased []string
}

// Options are what an audit knows besides the run's folder.
type Options struct {
	// Rounds gives a round's samples as vectors of the run's encoder, for the test of the noise; nil leaves the test
	// out. An error says why a round cannot be tested.
	Rounds func(round int) (Round, error)
	// Head is the hash of an earlier line of the ledger, or its first leastHead or more digits; "" for none. A ledger
	// that was rolled back together with its head file lacks the line.
	Head string
	// Expect gives what a configuration's clients are asked, to compare with the releases; nil leaves the comparison
	// out.
	Expect func(configs.Config) Expected
	// Alone audits a ledger without a run: its lines, its totals, and releases in the folder rounds if there is one.
	Alone bool
}

// Expected is what a run asks its clients.
type Expected struct {
	Query string
	Bound float64   // the norm that no client's vector exceeds
	First *Expected // of round 1, if it asks something else; nil if not
	Once  bool      // the release of round 1 serves all rounds
	None  bool      // clients are not asked
}

// leastHead is the number of digits that identify a line.
const leastHead = 12

// Validate returns an error that names the bad value.
func (o Options) Validate() error {
	if o.Head != "" && (len(o.Head) < leastHead || len(o.Head) > 64 || strings.Trim(o.Head, "0123456789abcdef") != "") {
		return fmt.Errorf("audit: the ledger's head is %q, want %d to 64 hex digits in lower case", o.Head, leastHead)
	}
	return nil
}

// Sound reports whether no problem was found.
func (r *Report) Sound() bool { return len(r.Problems) == 0 }

// Run audits a run's folder. An error means that the folder could not be read. Contradictions are in Problems, damage
// to the ledger included.
func Run(dir string, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Report{Dir: dir, options: o}
	path := filepath.Join(dir, rundir.Ledger)
	record, err := ledger.Inspect(path)
	if errors.Is(err, ledger.ErrDamaged) {
		r.Problems = append(r.Problems, err.Error())
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	r.Record, r.Head = record, record.Head()
	if r.Alone = o.Alone; r.Alone {
		r.Facts = guarantee.Facts{Record: record}
		r.Facts.Spent, err = ledger.Spent(record.Budget, record.Entries)
	} else {
		r.Facts, err = guarantee.ReadChosen(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if o.Head != "" && !slices.ContainsFunc(record.Hashes, func(h string) bool { return strings.HasPrefix(h, o.Head) }) {
		r.problem("%s has no line with the hash %s: lines were taken away together with the head, or it is "+
			"another run's.", path, o.Head)
	}
	if err := r.recompute(); err != nil {
		return nil, fmt.Errorf("audit: %s: %w", path, err)
	}
	if !r.Alone || rundir.Has(dir, rundir.Rounds) {
		if err := r.releases(); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	if r.Alone {
		r.Unmeasured = r.Releases > 0
		return r, r.ofRun()
	}
	r.configuration()
	for _, name := range r.unreleased {
		r.problem("%s was made after a release that is not on disk: what it used cannot be checked.", name)
	}
	if err := r.testNoise(o.Rounds); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	r.Warnings = append(r.Warnings, r.Facts.Warnings()...)
	return r, r.uncovered()
}

// ofRun finds a file of a run in a folder without the run's configuration. Protected test clients have releases, figures and
// a small model.
func (r *Report) ofRun() error {
	files, _, err := rundir.Split(r.Dir, rundir.Everybody, rundir.Evaluated, rundir.Operator, rundir.Owner)
	for _, name := range files {
		first, _, _ := strings.Cut(name, "/")
		_, _, part := release.PartOf(filepath.Base(name))
		if !part && first != rundir.Eval && first != rundir.Small && !strings.HasPrefix(name, rundir.Ledger) {
			r.problem("%s is of a run, and the run's %s is not here: what clients were asked, and the noise, cannot be "+
				"checked.", name, rundir.Config)
			break
		}
	}
	return err
}

// uncovered names what is in the folder and not for everybody.
func (r *Report) uncovered() error {
	_, kept, err := rundir.Split(r.Dir, rundir.Everybody, rundir.Evaluated)
	var names []string
	for _, k := range kept {
		name, _, _ := strings.Cut(k.Path, "/")
		if f, ok := rundir.Find(k.Path); ok {
			name = f.Name
		}
		if name != rundir.Ledger+".lock" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("The folder holds what the guarantee does not cover (%s): give away "+
			"what popri publish copies.", strings.Join(names, ", ")))
	}
	return err
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// tolerance is the largest accepted difference of totals that other versions of the accountants computed.
const tolerance = 1e-3

// recompute asks every accountant, and compares the results with the totals in the ledger.
func (r *Report) recompute() error {
	b, entries := r.Record.Budget, r.Record.Entries
	events := ledger.Events(b, entries)
	decides := ledger.Accountant(b, entries)
	r.Decides = decides.Name()
	for _, a := range accountant.All(b.Relation) {
		f := Figure{Name: a.Name()}
		var err error
		if f.Epsilon, err = a.Epsilon(events, b.Delta); errors.Is(err, accountant.ErrNotApplicable) {
			f.Unknown = "knows no bound for these rounds"
		} else if err != nil {
			return err
		}
		if f.Name == r.Decides {
			r.Epsilon = f.Epsilon
		}
		r.Spent = append(r.Spent, f)
	}
	if !(r.Epsilon <= b.Epsilon) {
		r.problem("The charges come to ε = %s, more than the budget of %g.", accountant.RoundUp(r.Epsilon, 6), b.Epsilon)
	}
	// The total of a sampled round needs a Fourier transform. Of long runs, some totals and the last one are checked.
	every := 1
	if r.Decides == (accountant.PLD{}).Name() {
		every = max(1, len(entries)/50)
	}
	for i, said := range r.Record.Totals {
		if i%every != 0 && i != len(entries)-1 {
			continue
		}
		spent, err := ledger.Spent(b, entries[:i+1])
		if err != nil {
			return err
		}
		if !(math.Abs(said-spent) <= tolerance*spent || said == spent) {
			r.problem("Charge %d says that ε = %s was spent with it; it was %s.", i+1,
				accountant.RoundUp(said, 6), accountant.RoundUp(spent, 6))
		}
	}
	return nil
}

// releases compares the releases on disk with the charges.
func (r *Report) releases() error {
	b := r.Record.Budget
	charged, seen := map[string]ledger.Entry{}, map[string]bool{}
	for _, e := range r.Record.Entries {
		if !e.Inherited {
			charged[e.ReleaseHash] = e
		}
	}
	rounds, err := os.ReadDir(filepath.Join(r.Dir, rundir.Rounds))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, round := range rounds {
		dir := filepath.Join(r.Dir, rundir.Rounds, round.Name())
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		released, after := false, ""
		for _, f := range files {
			name := filepath.Join(dir, f.Name())
			part, pending, ok := release.PartOf(f.Name())
			switch {
			case ok:
				released = true
				found, err := release.Read(name)
				if err != nil {
					r.problem("%v", err)
					continue
				}
				e, ok := charged[found.Hash]
				switch {
				case !ok && pending:
					r.problem("%s was drawn and not charged: the run was stopped there. Resume it, or remove the file.", name)
				case !ok:
					r.problem("%s has no charge: no line of the ledger has its hash %.12s….", name, found.Hash)
				case fmt.Sprintf("%04d", found.Round) != filepath.Base(dir) || found.Part != part:
					r.problem("%s is the release of round %d, in the folder of another, or of another part: %d.", name,
						found.Round, found.Part)
				default:
					seen[found.Hash] = true
					r.Releases++
					r.found = append(r.found, foundRelease{name, found})
					r.compare(name, found, e, b)
				}
			case consequence(f.Name()):
				after = name
			}
		}
		if after != "" && !released {
			r.unreleased = append(r.unreleased, after)
		}
	}
	for i, e := range r.Record.Entries {
		if !e.Inherited && !seen[e.ReleaseHash] {
			r.Warnings = append(r.Warnings, fmt.Sprintf("Charge %d, for round %d, has no release on disk: it still "+
				"counts as spent.", i+1, e.Round))
		}
	}
	return nil
}

// consequence reports whether a file of a round is computed from the round's release.
func consequence(name string) bool {
	return slices.Contains([]string{"pairs.parquet", "adapter", "selection.parquet", "pooled.safetensors",
		"metrics.json"}, name)
}

// compare compares a release with its charge.
func (r *Report) compare(name string, found *release.Release, e ledger.Entry, b ledger.Budget) {
	r.Query, r.Bound = found.Query, found.Bound
	want := found.Charge(b.Clients)
	want.Inherited = e.Inherited
	if e != want {
		r.problem("%s is not what was charged. It costs %+v; its charge is %+v.", name, want, e)
	}
	if found.Seeded != b.InsecureSeededNoise {
		r.problem("%s says that its noise was seeded: %v; the ledger says %v.", name, found.Seeded, b.InsecureSeededNoise)
	}
	if found.Sensitivity < found.Bound {
		r.problem("%s counts on a sensitivity of %g with vectors of norm up to %g.", name, found.Sensitivity, found.Bound)
	}
	for i, v := range found.Sum {
		if found.Step > 0 && math.Mod(v, found.Step) != 0 {
			r.problem("%s: value %d, %g, is not on the grid of %g: it is no output of the noise.", name, i, v, found.Step)
			break
		}
	}
}

// Statement says in plain words what is guaranteed.
func (r *Report) Statement() []string {
	if r.Record.Budget.Clients == 0 {
		return []string{"The ledger cannot be trusted, so nothing can be said."}
	}
	if r.Alone {
		return r.Facts.Charged()
	}
	return r.Facts.Statement()
}

// Verdict is the last line of an audit without problems.
func (r *Report) Verdict() string {
	if r.Alone {
		return "The ledger is whole, and its totals are right."
	}
	if !r.Facts.Protects() {
		return "The files fit together, but this run protects nobody."
	}
	if len(r.NoiseUntested) > 0 {
		return "What was tested fits. Not all noise was measured; why not stands above."
	}
	return "Everything fits."
}
