package buttress

import (
	"path/filepath"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/rundir"
)

// Settings says which texts of an earlier run's synthetic set are kept, in the method "buttress". privacy.continues names a
// run whose clients trained the earlier run's small model further (popri run --at-clients), or a filter that continues one.
// A text's gain is the mean log-likelihood of its tokens after that training minus the mean before it, in nats.
type Settings struct {
	// Keep is the fraction of the texts that are kept, at least one text. Default 0.2. 1 keeps all; the less is kept, the
	// fewer texts the small model has to learn from.
	Keep float64 `yaml:"keep" range:"(0, 1]"`
	// Gamma is γ: texts are drawn without replacement, with weights exp(γ·gain). Default 0: the texts with the largest gain
	// are kept. A large one keeps nearly the same, a small one a more varied set.
	Gamma float64 `yaml:"gamma" range:"[0, 1e6]"`
}

var settings = configs.Register("buttress", Settings{Keep: 0.2}, nil)

// check reports what the method needs of other settings, and cannot do.
func check(r *configs.Report, c configs.Config) {
	const where = "where method is \"buttress\""
	if c.Privacy.Continues == "" {
		r.Add("privacy.continues", "is \"\", must name a run of popri run --at-clients "+where)
	}
	r.Refuse(c, where+": small models of other runs score the texts", "fed.clients", "downstream.task")
}

// earlier are the files of the runs that a run follows.
type earlier struct {
	texts  string // the synthetic set
	before string // folder of the small model that it trained
	after  string // folder of the same, which clients trained further
}

// follow finds the files of a run whose clients trained the small model of another run. A run that filters, too, stands for
// the one that it follows: ledgers have one successor each, so that several filters are a chain.
func follow(run string) (earlier, error) {
	f := earlier{after: filepath.Join(run, rundir.Small)}
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(run, rundir.Config)})
	if err != nil {
		return f, fault.Userf("privacy.continues is %s: %w", run, err)
	}
	if c.Follows() {
		return follow(c.Privacy.Continues)
	}
	f.before = filepath.Clean(c.Downstream.Model)
	f.texts = filepath.Join(filepath.Dir(f.before), rundir.Synthetic)
	switch {
	case !rundir.IsSmall(f.before):
		return f, fault.Userf("privacy.continues is %s, whose downstream.model is %s, not the small model of another run: name "+
			"a run of popri run --at-clients", run, c.Downstream.Model)
	case !rundir.Has(run, rundir.Small):
		return f, fault.Userf("privacy.continues is %s, which has no small model (%s) yet: let the run end first", run, f.after)
	case !rundir.Has(filepath.Dir(f.before), rundir.Synthetic):
		return f, fault.Userf("privacy.continues is %s, which began with the small model %s, and there is no synthetic set %s",
			run, f.before, f.texts)
	}
	return f, nil
}
