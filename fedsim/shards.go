package fedsim

import (
	"context"
	"errors"
	"fmt"

	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Sums returns the exact sum over all clients, who are on other machines: their merged partial sums. It is called when
// a request is neither on disk nor beyond the budget. An error ends the request; nothing was drawn or charged then.
type Sums func(release.Request) (query.Partial, error)

// NewRemote makes a federation of train clients whose sums come from elsewhere. The noise, the charge and the states of
// a release are those of [New], and the same exact sum gives the same release. All clients take part in each round: a
// cohort that is drawn for a round must be drawn from all clients at once, and in secret.
func NewRemote(train int, sums Sums, config Config) (*Federation, error) {
	if config.Sampling == "" {
		config.Sampling = ledger.Full
	}
	err := config.validate(train)
	if config.Sampling != ledger.Full {
		err = errors.Join(err, fmt.Errorf("fedsim: sampling %q of clients that are elsewhere, want %q",
			config.Sampling, ledger.Full))
	}
	if config.Least > 0 {
		err = errors.Join(err, errors.New("fedsim: shards do not go through two aggregators"))
	}
	return elsewhere(&Federation{config: config, train: train, sums: sums}, err)
}

// Noised returns the noised sum of a round from two aggregators, in steps of its grid, and the number of reports. An
// [Unusable] error is charged; no other is.
type Noised func(release.Request) (steps []int64, reports int, err error)

// NewAggregated makes a federation of train clients who report to two aggregators. Config.Least is above 0.
func NewAggregated(train int, noised Noised, config Config) (*Federation, error) {
	if config.Sampling == "" {
		config.Sampling = ledger.Full
	}
	err := config.validate(train)
	if config.Least == 0 || config.Reports != nil {
		err = errors.Join(err,
			errors.New("fedsim: two aggregators need a least number of reports, and take those that arrive"))
	}
	return elsewhere(&Federation{config: config, train: train, noised: noised}, err)
}

func elsewhere(f *Federation, err error) (*Federation, error) {
	if f.config.UnsafeDiagnostics != nil {
		err = errors.Join(err, errors.New("fedsim: there are no diagnostics of clients that are elsewhere"))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// remote is the sum of clients that are elsewhere, in steps of the grid.
func (f *Federation) remote(r release.Request, grid noise.Grid) ([]int64, error) {
	q, ok := r.Query.(query.Mergeable)
	if !ok {
		return nil, fmt.Errorf("%s cannot be summed up in parts", r.Query.Name())
	}
	p, err := f.sums(r)
	if err != nil {
		return nil, err
	}
	sum, err := q.Finish(p)
	if err != nil {
		return nil, err
	}
	return rounded(sum, grid), nil
}

// Partial adds clients to an exact sum of a query's vectors: the part of the sum that is theirs. The sum is private
// data. A partial sum without blocks is zero.
func Partial(ctx context.Context, q query.Mergeable, encoder embedding.Encoder, some []clients.Client,
	sum query.Partial) (query.Partial, error) {
	embedded, err := Embed(ctx, some, encoder, q.NeedsTexts(), nil)
	if err != nil {
		return sum, err
	}
	p, err := q.Partial(embedded)
	if err != nil {
		return sum, err
	}
	if len(sum.Blocks) == 0 {
		return p, nil
	}
	return sum, sum.Merge(p)
}
