package guarantee

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rundir"
)

// Use says what the validation clients' texts were used for, which are read without noise: one of the constants, or
// several, on which what is published depends, joined by "+".
type Use string

// The uses.
const (
	NotUsed    Use = "none"
	Evaluation Use = "evaluation" // measurements that nothing published depends on
	Selection  Use = "selection"  // which step's adapters a round keeps (dpo.best=fid)
	Rounds     Use = "rounds"     // which round's adapters write the synthetic set (trainer.select=fid)
	Halving    Use = "halving"    // whether the run went on (popri ablate --adaptive)
	Validated  Use = "validated"  // which round's model is published (trainer.select=validation)
	Scoring    Use = "scoring"    // which texts of an earlier run are published, by small models that were chosen so
	Mixing     Use = "mixing"     // whether the synthetic set has public texts, written ones or both (synthetic.mix=validated)
)

// Has reports whether u includes a use.
func (u Use) Has(use Use) bool { return slices.Contains(strings.Split(string(u), "+"), string(use)) }

// choices say how what is published depends on the validation clients, where it does.
var choices = []struct {
	use    Use
	words  string
	chosen func(configs.Config) bool // nil: the configuration does not tell
}{
	{Halving, "an adaptive ablation decided whether this run went on by what a small model learns about their texts",
		nil},
	{Selection, "each round keeps the adapters whose samples are nearest to their texts (dpo.best=fid)",
		func(c configs.Config) bool { return c.DPO.Best == "fid" && !c.AtClients() }},
	{Rounds, "the synthetic set is of the round whose samples are nearest to their texts (trainer.select=fid)",
		func(c configs.Config) bool { return c.SelectsBy() == "fid" }},
	{Validated, "the model that is published or writes the set is the one with the least loss on their texts, of the " +
		"rounds or of the weights of a table (trainer.select)",
		func(c configs.Config) bool { return c.SelectsBy() == configs.ValidationLoss }},
	{Scoring, "the small models by which texts of an earlier run were chosen are of the step or round with the least loss on " +
		"their texts", configs.Config.Follows},
	{Mixing, "whether the synthetic set is public text, written text or both was chosen by what a small model learns about " +
		"their texts (synthetic.mix=validated)",
		func(c configs.Config) bool { return c.Synthetic.Mix == "validated" && !c.AtClients() }},
}

// chooses says what is published that depends on the validation clients; nil if nothing.
func (u Use) chooses() (out []string) {
	for _, c := range choices {
		if u.Has(c.use) {
			out = append(out, c.words)
		}
	}
	return out
}

// ValidationUse is the use of validation clients in a run with this configuration.
func ValidationUse(c configs.Config, validationClients int) Use {
	var uses []string
	for _, x := range choices {
		if x.chosen != nil && x.chosen(c) {
			uses = append(uses, string(x.use))
		}
	}
	switch {
	case len(uses) > 0:
		return Use(strings.Join(uses, "+"))
	case validationClients > 0:
		return Evaluation
	}
	return NotUsed
}

// The provenance keys of a configuration that this package reads.
const (
	ValidationKey = "validation_clients" // a Use
	CorpusKey     = "warning"            // a sentence about weights and data that do not belong together
)

// Facts decide the sentences of the guarantee.
type Facts struct {
	Record ledger.Record
	Spent  float64 // ε, at the budget's δ
	// Validation is what validation clients are used for.
	Validation Use
	// Evaluated says that small models were measured on test clients, and chosen on validation clients.
	Evaluated bool
	// Reference says that the evaluation has the ε = ∞ row, which was trained on the train clients' texts.
	Reference bool
	// UnsafeDiagnostics says that the user asked for figures without noise, whether their files still exist or not.
	UnsafeDiagnostics bool
	// AllowOverlap says that the public text may hold clients' texts.
	AllowOverlap bool
	// Since is the date from which on texts count (data.since), "" for all.
	Since string
	// Elsewhere says that the train clients were elsewhere, so that nobody compared public text with their texts.
	Elsewhere bool
	// Aggregated says that two aggregators added noise each (aggregate.least above 0).
	Aggregated bool
	// Proved says that clients proved the range of their values to the aggregators (aggregate.proof).
	Proved bool
	// Refused is what the aggregators refused; nil if there were none.
	Refused *Refusals
	// Unread is why the run's configuration is unknown; nil where it is known or there is none.
	Unread error
	// Changes are inputs that were changed while the run was interrupted.
	Changes []string
	// Together is what all runs of the run's ablation spent on its private data: who chose the run may have seen the
	// others. It is nil for the only run, outside of an ablation, and after [Read].
	Together *ledger.Composed
	// Corpus is a warning about weights and data; "" for none.
	Corpus string
}

// Read collects the facts about the run in dir. A damaged ledger is an error that is ledger.ErrDamaged.
func Read(dir string) (Facts, error) {
	record, err := ledger.Inspect(filepath.Join(dir, rundir.Ledger))
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Record: record, Validation: Evaluation} // if nothing else is known
	var invalid *configs.Invalid
	switch c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)}); {
	case errors.Is(err, fs.ErrNotExist): // without a configuration, the ledger alone is read
	case errors.As(err, &invalid):
		f.Unread = err
	case err != nil:
		return Facts{}, err
	default:
		f.configured(*c)
	}
	if f.Spent, err = ledger.Spent(record.Budget, record.Entries); err != nil {
		return f, err
	}
	f.UnsafeDiagnostics = f.UnsafeDiagnostics || rundir.Has(dir, rundir.Unsafe)
	var inputs struct {
		Changes []string `json:"changes"`
	}
	if _, err := atomicfile.ReadJSONIfAny(filepath.Join(dir, rundir.Inputs), &inputs); err != nil {
		return f, err
	}
	f.Changes = inputs.Changes
	var evaluation struct {
		Results []struct {
			Key string `json:"key"`
		} `json:"results"`
	}
	if _, err := atomicfile.ReadJSONIfAny(filepath.Join(dir, rundir.Eval), &evaluation); err != nil {
		return f, err
	}
	for _, r := range evaluation.Results {
		f.Evaluated = true
		f.Reference = f.Reference || r.Key == "private"
	}
	if f.Evaluated && f.Validation == NotUsed {
		f.Validation = Evaluation
	}
	if f.Refused, err = readRefusals(dir); err != nil {
		return f, err
	}
	if rundir.Has(dir, rundir.Rungs) {
		f.Validation += "+" + Halving
	}
	return f, nil
}

// ReadChosen is [Read] with [Facts.Together], which reads and composes the ledgers of all runs of the ablation: for what states
// the guarantee of a run that somebody may have chosen among them.
func ReadChosen(dir string) (Facts, error) {
	f, err := Read(dir)
	if err != nil {
		return f, err
	}
	if dir, err = filepath.Abs(dir); err != nil || !rundir.Has(filepath.Dir(dir), rundir.Ablation) {
		return f, err
	}
	runs, err := rundir.RunsIn(filepath.Dir(dir))
	if err != nil {
		return f, err
	}
	composed, err := Compose(runs)
	for _, c := range composed {
		if c.Data == f.Record.Budget.Data && !c.IfShared && len(c.Ledgers) > 1 {
			f.Together = &c
		}
	}
	return f, err
}

// Compose returns what runs spend together, for each of their private data sets. A run without a ledger is an error.
func Compose(runs []string) ([]ledger.Composed, error) {
	records, err := numeric.TryMap(runs,
		func(dir string) (ledger.Record, error) { return ledger.Inspect(filepath.Join(dir, rundir.Ledger)) })
	if err != nil {
		return nil, err
	}
	return ledger.Compose(records)
}

// Planned are the facts of a run that will have this configuration, with its provenance, and this ledger.
func Planned(c configs.Config, record ledger.Record) (f Facts, err error) {
	f.Record = record
	f.configured(c)
	f.Spent, err = ledger.Spent(record.Budget, record.Entries)
	return f, err
}

// configured takes what the configuration of a run says.
func (f *Facts) configured(c configs.Config) {
	f.UnsafeDiagnostics, f.AllowOverlap = c.Privacy.UnsafeDiagnostics, c.Data.AllowOverlap
	f.Since = c.Data.Since
	f.Elsewhere, f.Aggregated = c.Fed.Elsewhere(), c.Aggregate.Least > 0
	f.Proved = c.Aggregate.Proof == "range"
	f.Corpus, f.Validation = c.Provenance[CorpusKey], Use(c.Provenance[ValidationKey])
	if f.Validation == "" {
		f.Validation = ValidationUse(c, 1)
	}
}

// Protects reports whether the releases protect anybody.
func (f Facts) Protects() bool {
	return !f.Record.Budget.InsecureSeededNoise && !math.IsInf(f.Spent, 1)
}

// Releases counts the charges of the run and of the runs whose ledgers it continues.
func (f Facts) Releases() (own, inherited int) {
	for _, e := range f.Record.Entries {
		if e.Inherited {
			inherited++
		}
	}
	return len(f.Record.Entries) - inherited, inherited
}
