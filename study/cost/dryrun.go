package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"popri/accountant/guarantee"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/methods"
	"popri/methods/target"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/inputs"
	"popri/trainer/pretrain"
)

// DryRun is what a run would read, cost, spend and publish.
type DryRun struct {
	Clients     map[clients.Split]clients.Counts `json:"clients"`
	PublicTexts int                              `json:"public_texts"` // that prompts may quote, of any length
	// NoiseMultiplier is the multiplier of each of the releases, which spend Epsilon of the budget together.
	NoiseMultiplier float64 `json:"noise_multiplier"`
	Releases        int     `json:"releases"`
	Epsilon         float64 `json:"epsilon"`
	Budget          float64 `json:"budget"`
	Delta           float64 `json:"delta"`
	Work            Work    `json:"work"`
	// Trained are the roles of the models that are trained on the public text first, unless they are in the cache.
	Trained   []string `json:"trained_first"`
	Publishes []string `json:"publishes"`
	Guarantee string   `json:"guarantee"`
	Warnings  []string `json:"warnings"`
}

// Dry reads the data of a run and checks them as the run would, plans its releases and estimates its work, with its
// evaluation's by the rows that are named (none: all) or without. It trains nothing and writes nothing, but for the
// embedded models' copy in the cache folder.
func Dry(c configs.Config, evaluate bool, rows []string, warn func(string)) (*DryRun, error) {
	if err := evaluator.CheckTask(c); err != nil {
		return nil, err
	}
	data, err := assembly.LoadRun(c, warn)
	if err != nil {
		return nil, err
	}
	if err := evaluator.Check(c, data.Private); err != nil && evaluate {
		return nil, err
	} else if err != nil && warn != nil {
		warn("popri eval could not evaluate this run: " + err.Error())
	}
	budget := assembly.BudgetOf(c, data.Private, "")
	counts := counted(c, data)
	d := &DryRun{PublicTexts: len(data.Public.Prompts), Clients: counts.Clients,
		Budget: budget.Epsilon, Delta: budget.Delta, Trained: []string{}, Warnings: []string{}}
	record, err := assembly.Expect(c, budget, "dry run")
	if err != nil {
		return nil, err
	}
	d.Releases = methods.Of(c).Releases(c)
	if d.Releases > 0 {
		d.NoiseMultiplier = record.Entries[len(record.Entries)-1].Sigma
	}

	shape := func(path, embedded, role string) (lm.Shape, error) {
		if path != configs.Trained {
			return shapeOf(path, embedded, role)
		}
		shape, flops := pretrain.Small(data.Public, role, assembly.ComputeType(c.Model.DType)).Shape()
		d.Trained, d.Work.Flops = append(d.Trained, role), d.Work.Flops+flops
		return shape, nil
	}
	small, failed := shape(c.Downstream.Model, shipped.Device, pretrain.Device)
	generator, err := shape(c.Model.Path, shipped.Generator, pretrain.Generator)
	if err = cmp.Or(failed, err); err != nil {
		return nil, fault.User(err)
	}
	first := d.Work.Flops
	var keys []string
	if evaluate {
		keys = evaluated(c, len(data.Public.InDomain) > 0, rows...)
	}
	if d.Work, err = estimate(c, generator, small, counts, keys); err != nil {
		return nil, err
	}
	d.Work.Flops += first
	if evaluate { // a test token takes a forward pass of each model
		texts := d.Clients[clients.Test].Texts
		if most := c.Downstream.Training().Tested; most > 0 {
			texts = min(texts, most)
		}
		d.Work.Flops += 2 * float64(small.Parameters) * float64(texts*counts.tokens(c.Downstream.Length)*(len(keys)+1))
	}

	if c.Provenance, err = inputs.Provenance(c,
		inputs.Origin{Validation: d.Clients[clients.Validation].Clients}); err != nil {
		return nil, err
	}
	facts, err := guarantee.Planned(c, record)
	if err != nil {
		return nil, err
	}
	facts.Evaluated, facts.Reference = evaluate, evaluate && c.Eval.ReferencePrivate
	if d.Epsilon = facts.Spent; d.Epsilon > d.Budget {
		d.Warnings = append(d.Warnings,
			"all releases together spend more than the budget: the run ends before the last one (exit code 3)")
	}
	d.Guarantee, d.Warnings = facts.Headline(), append(d.Warnings, facts.Warnings()...)
	if text := assembly.SlowType(c.Model); text != "" {
		d.Warnings = append(d.Warnings, text)
	}
	d.Publishes = publishes(c, budget, d, evaluate)
	return d, nil
}

// CheckRows refuses names of rows that no evaluation of the configuration has.
func CheckRows(c configs.Config, rows []string) error {
	c.Eval.ReferencePrivate = false // its row cannot be chosen
	known := evaluated(c, true)
	for _, row := range rows {
		if !slices.Contains(known, row) {
			return fault.Userf("the table has no row %q: there are %s", row, strings.Join(known, ", "))
		}
	}
	return nil
}

// evaluated are the keys of the rows for which an evaluation trains small models: all, or only those that are named. A
// model at ε = 0 is not trained, nor a product that is a model itself.
func evaluated(c configs.Config, inDomain bool, only ...string) (keys []string) {
	m := methods.Of(c)
	mixes := m.Mixes && c.Synthetic.PublicTexts > 0
	// Prompts and weights that come of one release of the mean embedding can be had without training, too.
	asked, _ := m.Query(c)
	mean, _ := target.Query(c)
	for _, row := range []struct {
		key   string
		there bool
	}{{evaluation.KeyUntuned, true}, {evaluation.KeyUntrained, asked == mean}, {m.Name, !c.Learns()},
		{evaluation.KeyWritten, mixes}, {evaluation.KeySelected, mixes}, {evaluation.KeyPublicAll, true},
		{evaluation.KeyInDomain, inDomain}} {
		if row.there && (len(only) == 0 || slices.Contains(only, row.key)) {
			keys = append(keys, row.key)
		}
	}
	if c.Eval.ReferencePrivate {
		keys = append(keys, downstream.Private)
	}
	return keys
}

// publishes says what the run's folder has for its readers.
func publishes(c configs.Config, b ledger.Budget, d *DryRun, evaluate bool) []string {
	product := fmt.Sprintf("synthetic.parquet: %d texts that the tuned model writes", d.Work.Product)
	switch m := methods.Of(c); {
	case c.Learns():
		product = "small/: the small model, " + m.Product
	case m.Publishes != nil:
		product = "synthetic.parquet: " + m.Publishes(c)
	case m.ChoosesMix(c):
		product += fmt.Sprintf(" and %d public texts that the noised release weights, or one of both, as validation "+
			"clients choose", c.Synthetic.PublicTexts)
	case m.Mixes && c.Synthetic.PublicTexts > 0:
		product += fmt.Sprintf(" and %d public texts that the noised release weights", c.Synthetic.PublicTexts)
	}
	var parts []string
	if !c.AtClients() {
		parts = append(parts, "samples, scores, adapters")
	}
	if d.Releases > 0 {
		parts = append(parts, fmt.Sprintf("the noised sum of the train clients' vectors of each release (%d)", d.Releases))
	}
	list := []string{product, "rounds/: " + strings.Join(parts, ", and "),
		fmt.Sprintf("config.yaml, ledger.jsonl: all settings, and the number of train clients (%d)", b.Clients)}
	if evaluate {
		list = append(list, "small/: the small model that is trained on the synthetic set, with its card",
			"eval.json, report.html: figures on validation and test clients, who are not protected")
	} else {
		list = append(list, "report.html: figures on validation clients, who are not protected")
	}
	return list
}
