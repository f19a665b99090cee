package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/model/lm"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/scoring"
	"popri/scoring/query"
)

// Protected is the evaluation of text on test clients who are protected: each answers with the accuracies of the models
// on its own texts, and only their noised sum is seen.
type Protected struct {
	Rows    []ProtectedRow `json:"rows"`
	Clients int            `json:"test_clients"`
	Epsilon float64        `json:"epsilon"` // that the release spent
	Delta   float64        `json:"delta"`
	Sigma   float64        `json:"sigma"`
	Seed    uint64         `json:"seed"`
}

// ProtectedRow is a row of [Protected].
type ProtectedRow struct {
	Name string `json:"name"`
	// Accuracy is the mean over the test clients of a client's accuracy, noise included, which may carry it out of [0,
	// 1]. It is not the accuracy of all tokens together, which eval.json has.
	Accuracy float64 `json:"accuracy"`
	// Noise is the standard deviation of the noise in it. The choice of the clients is not part of it.
	Noise float64 `json:"noise_sd"`
}

// Protect trains the small model on a file of texts, or tests a model's folder, and asks the test
// clients for the accuracies of it, of ε = 0 and, where eval.reference_private allows it, of ε = ∞. The vector of a
// client has one value between 0 and 1 for each model, so its norm is at most √models, and replacing a client's answers
// by zeros moves the sum by as much. epsilon is spent at once, with the configuration's delta; the ledger and the
// release are in dir. Called again for the same texts, it reads the release; for others, the budget is spent.
// Validation clients choose each model's step and are not protected.
func Protect(ctx context.Context, c configs.Config, file, dir string, epsilon float64, o Options) (*Protected, error) {
	src, population, err := opened(c, file)
	if err != nil {
		return nil, err
	}
	src.Name = filepath.Base(file)
	identity, of := atomicfile.SHA256, textsFile(file)
	if src.Model != "" {
		identity, of = lm.Identity, src.Model
	}
	key, unread := identity(of)
	public, failed := labelledPublic(c)
	budget, err := testBudget(c, population, epsilon)
	if err = cmp.Or(unread, failed, err); err != nil {
		return nil, err
	}
	if err := budget.Validate(); err != nil {
		return nil, fault.Userf("the test clients' budget: %w", err)
	}
	o.Cache = "" // it has each text's figures, which nobody may see
	suite, err := o.suite(c, population, public)
	if err != nil {
		return nil, err
	}
	if err := assembly.ProtectFigures(population, dir); err != nil {
		return nil, err
	}
	suite.Kept = src.Key
	round := rundir.Round(dir, 1)
	if err := os.MkdirAll(round, 0o755); err != nil {
		return nil, fault.Userf("the folder of the noised figures cannot be made: %w", err)
	}
	l, err := ledger.Obtain(filepath.Join(dir, rundir.Ledger), budget) // before models are trained for nothing
	if err != nil {
		return nil, fault.User(err)
	}
	defer l.Close()
	if earlier, err := release.Read(filepath.Join(round, release.File)); err == nil && !strings.HasPrefix(earlier.Key, asked(key)) {
		return nil, otherTexts(dir, release.ErrOtherSamples)
	}
	if o.Progress.Begin != nil {
		o.Progress.Begin()
	}
	answers, names, err := suite.Accuracies(ctx, []downstream.Source{src})
	if o.Progress.Done != nil {
		o.Progress.Done()
	}
	if err != nil {
		return nil, err
	}
	return released(answers, names, l, c, dir, key)
}

// asked begins the key of the question about texts with this identity.
func asked(key string) string { return "accuracy " + key + " " }

func otherTexts(dir string, err error) error {
	return fault.Userf("%s holds the answer for other texts, and the test clients' budget is spent: %w", dir, err)
}

// testBudget protects the test clients.
func testBudget(c configs.Config, population *clients.Population, epsilon float64) (ledger.Budget, error) {
	tag, err := assembly.Tag(population, clients.Test)
	if err != nil {
		return ledger.Budget{}, err
	}
	c.Fed.Clients = 0 // wherever the train clients are
	b := assembly.BudgetOf(c, population, tag)
	b.Epsilon, b.Data, b.Mechanism = epsilon, tag, "gaussian"
	b.Clients, b.Relation = len(population.Split(clients.Test)), accountant.ZeroOut
	return b, nil
}

// released adds up the clients' answers, with noise for the whole budget.
func released(answers [][]float64, names []string, l *ledger.Ledger, c configs.Config, dir, key string) (*Protected,
	error) {
	b := l.Budget()
	plan := accountant.Plan{Each: ledger.Entry{Sampling: ledger.Full}.Event(b)}
	plan.Each.Count = 1
	sigma, err := plan.Sigma(ledger.Accountant(b, []ledger.Entry{{Sampling: ledger.Full}}), b.Epsilon, b.Delta)
	if err != nil {
		return nil, err
	}
	config := fedsim.Config{Ledger: l}
	if c.Privacy.InsecureSeededNoise {
		config.InsecureSeed = &c.Seed
	}
	clients := query.Clients{Means: query.Means{Clients: len(answers), Dim: len(names), Data: slices.Concat(answers...)}}
	f, err := fedsim.New(fedsim.Embedded{Clients: clients}, fedsim.Gaussian{Sigma: sigma}, config)
	if err != nil {
		return nil, err
	}
	bound := math.Sqrt(float64(len(names)))
	q, err := scoring.NewMean(len(names), scoring.MeanOptions{Bound: bound},
		fmt.Sprintf("%s%v %v %d", asked(key), names, evaluation.SmallOf(c), c.Seed))
	if err != nil {
		return nil, err
	}
	r, err := f.Collect(release.Request{Round: 1, Query: q, Dir: rundir.Round(dir, 1)})
	switch {
	case errors.Is(err, release.ErrOtherSamples):
		return nil, otherTexts(dir, err)
	case err != nil:
		return nil, err
	}
	spent, err := l.Spent()
	if err != nil {
		return nil, err
	}
	p := &Protected{Clients: len(answers), Epsilon: spent, Delta: b.Delta, Sigma: sigma, Seed: c.Seed}
	for i, name := range names {
		p.Rows = append(p.Rows, ProtectedRow{name, r.Sum[i] / float64(len(answers)),
			sigma * bound / float64(len(answers))})
	}
	return p, atomicfile.WriteJSON(filepath.Join(dir, rundir.Eval), p)
}
