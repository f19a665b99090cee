package fedsim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Config has the settings of a federation.
type Config struct {
	// Ledger is charged for each release. Required. Its budget must be for as many clients as the population has for
	// training.
	Ledger *ledger.Ledger
	// Sigma is the noise multiplier: standard deviation of the noise / the norm bound of the query. 0 adds no noise,
	// which only a ledger without a bound on ε accepts.
	Sigma float64
	// Sampling says how the clients of a round are drawn; default [ledger.Full]. Cohorts are drawn anew in every round,
	// and in secret: sampling protects only if nobody knows who was asked.
	Sampling ledger.Sampling
	// Cohort is the number of clients of a round: exact under [ledger.Fixed], expected under [ledger.Poisson]. 0 under
	// [ledger.Full]. Under [ledger.Tree], it is the number of clients of a leaf.
	Cohort int
	// Order is the seed of the order in which the clients take part under [ledger.Tree]; it is no secret.
	Order uint64
	// InsecureSeed takes the noise from this seed instead of the system's entropy: anybody who knows the seed
	// can subtract the noise. For tests. The ledger's budget must say so too.
	InsecureSeed *uint64
	// Least, above 0, makes the sum as two aggregators do (package aggregate): each client rounds its own vector to the
	// grid, and both aggregators add the full noise, of which one is charged. It is the number of reports below which
	// nothing is summed.
	Least int
	// Reports, if not nil, are the clients whose reports arrive in a round, in ascending order; Least must be above 0.
	// Whether a client's report arrives must not depend on its texts. The number of reports is public.
	Reports func(round int) []int
	// Picks, above 0, says that the clients are asked for the largest counts of their votes ([query.Ranking]) instead
	// of sums, so many at most in a release, and Slack is the δ of each that goes to the threshold of counts. Sigma is
	// then the scale of Gumbel noise. The exact histogram is in this process: neither shards nor aggregators can give
	// it.
	Picks int
	Slack float64
	// UnsafeDiagnostics, if not nil, writes figures without noise to disk. For experiments on public data.
	UnsafeDiagnostics *UnsafeDiagnostics
}

// Federation is the simulated population. Its methods are not safe for concurrent use.
type Federation struct {
	config   Config
	train    int           // number of clients
	clients  query.Clients // empty if sums is set
	sums     Sums          // not nil if the clients are elsewhere, in shards
	noised   Noised        // not nil if the clients are elsewhere, behind two aggregators
	learner  Learner       // not nil if the clients answer with updates of a model's weights
	teachers Teachers      // not nil if they vote for tokens, as teachers
	prefix   prefix        // of the tree under way, under ledger.Tree
	// crash stands for a process that ends at the named stage of a release; tests set it.
	crash func(stage string) error
}

// New makes a federation of clients whose texts are embedded; see [Embed].
func New(clients query.Clients, config Config) (*Federation, error) {
	if config.Sampling == "" {
		config.Sampling = ledger.Full
	}
	if err := config.validate(clients.Clients); err != nil {
		return nil, err
	}
	return &Federation{config: config, train: clients.Clients, clients: clients}, nil
}

func (c Config) validate(train int) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !(c.Sigma >= 0) || math.IsInf(c.Sigma, 1) {
		fault("fedsim: noise multiplier is %g, want 0 or more", c.Sigma)
	}
	switch c.Sampling {
	case ledger.Full:
		if c.Cohort != 0 {
			fault("fedsim: a cohort of %d under full participation", c.Cohort)
		}
	case ledger.Poisson, ledger.Fixed, ledger.Tree:
		if c.Cohort < 1 || c.Cohort >= train {
			fault("fedsim: a cohort of %d of %d clients, want at least 1 and fewer than all", c.Cohort, train)
		}
	default:
		fault("fedsim: sampling is %q, want %q, %q, %q or %q", c.Sampling, ledger.Full, ledger.Poisson, ledger.Fixed,
			ledger.Tree)
	}
	switch {
	case c.Least < 0 || c.Least > train:
		fault("fedsim: %d clients must report at least, of %d", c.Least, train)
	case c.Least > 0 && c.Sampling == ledger.Fixed:
		fault("fedsim: a cohort of fixed size behind two aggregators, where each client's own coin draws it")
	case c.Least == 0 && c.Reports != nil:
		fault("fedsim: some clients' reports do not arrive, and no least number is stated")
	}
	if c.Picks != 0 && (c.Picks < 0 || !(c.Slack > 0 && c.Slack < 1) || c.Sampling != ledger.Full || c.Least > 0 ||
		c.UnsafeDiagnostics != nil) || c.Picks == 0 && c.Slack != 0 {
		fault("fedsim: selections of %d with slack %g: all clients vote each time, in one place, and there are no "+
			"diagnostics", c.Picks, c.Slack)
	}
	if train == 0 {
		fault("fedsim: the population has no train clients")
	}
	if c.Ledger == nil {
		fault("fedsim: there is no ledger to charge")
	} else {
		budget := c.Ledger.Budget()
		if budget.Clients != train {
			fault("fedsim: the ledger's budget is for %d clients, the population has %d train clients", budget.Clients,
				train)
		}
		if c.Sampling == ledger.Fixed && budget.Relation != accountant.Replace {
			fault("fedsim: cohorts of fixed size are accounted under the relation %q, want %q: their bound "+
				"compares cohorts in which another client has the place", budget.Relation, accountant.Replace)
		}
		if budget.InsecureSeededNoise != (c.InsecureSeed != nil) {
			fault("fedsim: insecure seeded noise is %v here and %v in the ledger", c.InsecureSeed != nil,
				budget.InsecureSeededNoise)
		}
	}
	return errors.Join(faults...)
}

// Embed encodes the clients' texts, once, in blocks of whole clients. With texts, it keeps each text's embedding;
// otherwise only the clients' means stay in memory. The result is private data. Embed stops between two blocks when ctx
// ends, and tells, if tell is not nil, how many clients are done.
func Embed(ctx context.Context, train []clients.Client, encoder embedding.Encoder, texts bool,
	tell func(done, total int)) (query.Clients, error) {
	const block = 1024 // texts: some seconds of work for a large encoder on few cores
	n, dim := len(train), encoder.Dim()
	all := query.Clients{Means: query.Means{Clients: n, Dim: dim, Data: make([]float64, 0, n*dim)}}
	if texts {
		all.Texts.Dim, all.Offsets = dim, []int{0}
	}
	for done := 0; done < n; {
		if err := ctx.Err(); err != nil {
			return query.Clients{}, err
		}
		var some []string
		offsets := []int{0}
		next := done
		for next < n && (next == done || len(some)+len(train[next].Texts) <= block) {
			some = append(some, train[next].Texts...)
			offsets = append(offsets, len(some))
			next++
		}
		rows, err := encoder.Encode(some)
		if err != nil {
			return query.Clients{}, fmt.Errorf("fedsim: encode the texts of %d clients: %w", next-done, err)
		}
		means, err := query.MeanEmbeddings(rows, offsets)
		if err != nil {
			return query.Clients{}, fmt.Errorf("fedsim: %w", err)
		}
		all.Data = append(all.Data, means.Data...)
		if texts {
			for _, end := range offsets[1:] {
				all.Offsets = append(all.Offsets, all.Texts.Rows+end)
			}
			all.Texts.Data, all.Texts.Rows = append(all.Texts.Data, rows.Data...), all.Texts.Rows+rows.Rows
		}
		if done = next; tell != nil {
			tell(done, n)
		}
	}
	for i, v := range all.Data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return query.Clients{}, fmt.Errorf("fedsim: encoder %s gives %g for a text of client %d", encoder.Name(), v,
				i/dim)
		}
	}
	return all, nil
}

// Label notes the labels of the clients' texts, which [Embed] kept, by their numbers in a list of classes. A text whose
// label is none of them, or that has none, gets -1: it answers no question about labels.
func Label(embedded *query.Clients, train []clients.Client, classes []string) {
	embedded.Labels = make([]int32, 0, embedded.Texts.Rows)
	for _, label := range clients.Labels(train) {
		embedded.Labels = append(embedded.Labels, int32(slices.Index(classes, label)))
	}
}

// Clients is the number of train clients.
func (f *Federation) Clients() int { return f.train }

// charge is the cost of a round in which everybody answers, without its hash.
func (c Config) charge(train, round int) ledger.Entry {
	e := ledger.Entry{Sigma: c.Sigma, Sampling: c.Sampling, Cohort: train}
	switch c.Sampling {
	case ledger.Poisson:
		e.Cohort, e.SamplingRate = c.Cohort, float64(c.Cohort)/float64(train)
	case ledger.Fixed, ledger.Tree:
		e.Cohort = c.Cohort
	}
	e.Clients = e.Cohort
	if c.Picks > 0 {
		e.Mechanism, e.Picks, e.Slack = accountant.Gumbel, c.Picks, c.Slack
	}
	return e.At(round, train)
}
