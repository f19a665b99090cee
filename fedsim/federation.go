package fedsim

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/scoring/query"
)

// Clients are a source of sums: the train clients, whatever they answer with and wherever they are.
type Clients interface {
	// N is the number of train clients. It is public.
	N() int
	// CanAnswer says why these clients cannot answer a question; nil if they can.
	CanAnswer(query.Question) error
	// Sum adds up one bounded vector for each client of a round, in steps of the round's grid. The sum is private data,
	// unless it comes from two aggregators, which have added noise.
	Sum(Round) (Sum, error)
}

// only refuses questions of other kinds than Q.
func only[Q query.Question](q query.Question, about string) error {
	if _, ok := q.(Q); !ok {
		return fmt.Errorf("fedsim: %s is no question about %s, which alone these clients answer", q.Name(), about)
	}
	return nil
}

// Round is what a sum is about.
type Round struct {
	release.Request
	Grid   noise.Grid
	Cohort []int // the clients that are asked, in ascending order
}

// tell reports that some of all n clients have answered, unless only a cohort is asked, whose size may be secret.
func (r Round) tell(done, n int) {
	if r.Progress != nil && len(r.Cohort) == n {
		r.Progress(done, n)
	}
}

// Sum is an exact sum of clients' vectors, or a sum with the noise of both aggregators.
type Sum struct {
	Steps []int64
	// Reports is the number of clients whose vectors are in the sum, as far as it is public: all that could be asked,
	// but for those whose reports did not arrive.
	Reports int
}

// Mechanism makes a release of the clients' sum: it decides who is asked, adds the noise and states what that costs.
type Mechanism interface {
	// Check returns an error for every setting that does not fit n clients and a budget.
	Check(n int, b ledger.Budget) []error
	// Plan is the release of a request if all of n clients answer, without its values, and the grid of the sum.
	Plan(r release.Request, n int) (*release.Release, noise.Grid, error)
	// Length says how many values a release of a question has at least and at most.
	Length(q query.Question) (least, most int)
	// Draw asks the clients and completes a plan with noised values, and with the number of clients that answered.
	Draw(plan *release.Release, round Round, c Clients, random Random) error
}

// Random makes the sources of a release's random numbers by purpose: the system's entropy or, insecurely, a seed.
type Random func(purpose string) noise.Source

// Config has the settings of a federation.
type Config struct {
	// Ledger is charged for each release. Required. Its budget must be for as many clients as there are for training.
	Ledger *ledger.Ledger
	// InsecureSeed takes the noise from this seed instead of the system's entropy: anybody who knows the seed can
	// subtract the noise. For tests. The ledger's budget must say so too.
	InsecureSeed *uint64
	// UnsafeDiagnostics, if not nil, writes figures without noise to disk, for [Embedded] clients. For experiments on
	// public data.
	UnsafeDiagnostics *UnsafeDiagnostics
}

// Federation is the population of train clients: a source of sums and a mechanism that makes releases of them. Its
// methods are not safe for concurrent use.
type Federation struct {
	clients   Clients
	mechanism Mechanism
	config    Config
	// crash stands for a process that ends at the named stage of a release; tests set it.
	crash func(stage string) error
}

// New composes a federation. Clients that cannot be asked that way, and settings that do not fit the ledger's budget,
// are an error that names all of them.
func New(c Clients, m Mechanism, config Config) (*Federation, error) {
	var faults []error
	n := c.N()
	if n == 0 {
		faults = append(faults, errors.New("fedsim: the population has no train clients"))
	}
	if _, ok := c.(Embedded); !ok && config.UnsafeDiagnostics != nil {
		faults = append(faults, fmt.Errorf("fedsim: there are no diagnostics of %T", c))
	}
	if config.Ledger == nil {
		return nil, errors.Join(append(faults, errors.New("fedsim: there is no ledger to charge"))...)
	}
	budget := config.Ledger.Budget()
	if budget.Clients != n {
		faults = append(faults, fmt.Errorf("fedsim: the ledger's budget is for %d clients, the population has %d "+
			"train clients", budget.Clients, n))
	}
	if budget.InsecureSeededNoise != (config.InsecureSeed != nil) {
		faults = append(faults, fmt.Errorf("fedsim: insecure seeded noise is %v here and %v in the ledger",
			config.InsecureSeed != nil, budget.InsecureSeededNoise))
	}
	if err := errors.Join(append(faults, m.Check(n, budget)...)...); err != nil {
		return nil, err
	}
	return &Federation{clients: c, mechanism: m, config: config}, nil
}

// Clients is the number of train clients.
func (f *Federation) Clients() int { return f.clients.N() }

// Collect asks the clients, charges the ledger and returns the noised sum ([ledger.Ledger.Release]). Called again for a
// round that is on disk, it returns the same release and charges nothing.
//
// Errors: ledger.ErrBudget if the budget does not cover the round (nothing was released), ledger.ErrUncharged,
// [release.ErrOtherSamples], and failures of the disk.
func (f *Federation) Collect(r release.Request) (*release.Release, error) {
	if err := f.validate(r); err != nil {
		return nil, err
	}
	answer, err := f.release(r)
	if err == nil && f.config.UnsafeDiagnostics != nil {
		err = f.config.UnsafeDiagnostics.write(f.clients.(Embedded), r.Query.(query.Query), answer)
	}
	if err != nil {
		return nil, fmt.Errorf("fedsim: round %d: %w", r.Round, err)
	}
	return answer, nil
}

func (f *Federation) validate(r release.Request) error {
	switch {
	case r.Round < 1 || r.Part < 0:
		return fmt.Errorf("fedsim: round %d, part %d, want 1 or more, and 0 or more", r.Round, r.Part)
	case r.Query == nil:
		return fmt.Errorf("fedsim: round %d asks nothing", r.Round)
	case r.Dir == "":
		return fmt.Errorf("fedsim: no folder for the release of round %d", r.Round)
	case r.Query.Key() == "":
		return fmt.Errorf("fedsim: the query of round %d does not say what it is about", r.Round)
	case !(r.Query.Bound() > 0) || math.IsInf(r.Query.Bound(), 1) || r.Query.Len() < 1:
		return fmt.Errorf("fedsim: %s asks for %d values of norm %g at most", r.Query.Name(), r.Query.Len(), r.Query.Bound())
	}
	return f.clients.CanAnswer(r.Query)
}

func (f *Federation) release(r release.Request) (*release.Release, error) {
	n := f.clients.N()
	plan, grid, err := f.mechanism.Plan(r, n)
	if err != nil {
		return nil, err
	}
	plan.Seeded = f.config.InsecureSeed != nil
	file, pending := release.Files(r.Part)
	written := ledger.Release{Final: filepath.Join(r.Dir, file), Pending: filepath.Join(r.Dir, pending), Crash: f.crash,
		Charge: func(content []byte) (ledger.Entry, error) {
			found, err := f.answers(content, plan, r)
			if err != nil {
				return ledger.Entry{Round: r.Round, Part: r.Part}, err
			}
			return found.Charge(n), nil
		},
		Draw: func() ([]byte, error) {
			fresh := *plan
			if err := f.mechanism.Draw(&fresh, Round{Request: r, Grid: grid}, f.clients, f.random(r)); err != nil {
				return nil, seen(err, fresh, n)
			}
			return fresh.Encode(), nil
		}}
	if f.config.InsecureSeed == nil { // a seeded draw may repeat the release that was charged
		planned := plan.Charge(n)
		written.Planned = &planned
	}
	content, resumed, err := f.config.Ledger.Release(written)
	if err != nil {
		return nil, err
	}
	answer, err := release.Decode(content)
	if err != nil {
		return nil, err
	}
	answer.Resumed = resumed
	return answer, nil
}

// answers reads the content of a release's file, which must be the answer to this request under this plan: else the
// error is [release.ErrOtherSamples].
func (f *Federation) answers(content []byte, plan *release.Release, r release.Request) (*release.Release, error) {
	found, err := release.Decode(content)
	if err != nil {
		return nil, err
	}
	least, most := f.mechanism.Length(r.Query)
	switch n := len(found.Sum); {
	case n < least || n > most:
		return nil, fmt.Errorf("%w: it has %d values, now there would be %d", release.ErrOtherSamples, n, most)
	case found.Key != r.Query.Key():
		return nil, fmt.Errorf("%w: there are as many, %d, but not the same ones", release.ErrOtherSamples, n)
	}
	if differences := plan.Differs(found); len(differences) > 0 {
		return nil, fmt.Errorf("%w: %s", release.ErrOtherSettings, strings.Join(differences, "; "))
	}
	return found, nil
}

// random are the sources of a release's random numbers.
func (f *Federation) random(r release.Request) Random {
	return func(purpose string) noise.Source {
		seed := f.config.InsecureSeed
		switch {
		case seed == nil:
			return noise.Secure()
		case r.Part > 0:
			return rng.New(*seed, purpose, fmt.Sprint(r.Round), fmt.Sprint(r.Part))
		}
		return rng.New(*seed, purpose, fmt.Sprint(r.Round))
	}
}
