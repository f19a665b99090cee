package configs

import (
	"fmt"
	"slices"
	"strings"
)

// formerly has the keys of earlier versions, so that their files, variables and --set still mean what they meant, and
// the folders of their runs can be resumed, reported and audited.
var formerly = map[string]struct {
	now  string            // the key that holds its values today; "" if the program decides
	as   map[string]string // the texts that are spelt otherwise today; nil: none is
	when func(Config) bool // the runs that used the key; in others it says nothing; nil is all
	zero bool              // 0 says nothing: another key has the value
	item bool              // the value is the first of a list, before those under the list's own name
	is   func(Config) any  // what the program does where there is no key; nil accepts any value
	why  string            // of that
}{
	"dpo.schedule":               {now: "optimizer.schedule"},
	"dpo.min_learning_rate":      {now: "optimizer.min_learning_rate"},
	"dpo.warmup_steps":           {now: "optimizer.warmup_steps"},
	"dpo.warmup_ratio":           {now: "optimizer.warmup_steps", zero: true},
	"dpo.carry_optimizer":        {is: Config.moments, why: moments},
	"dpo.carry_schedule":         {now: "optimizer.carry"},
	"optimizer.carry_moments":    {is: Config.moments, why: moments},
	"optimizer.carry_schedule":   {now: "optimizer.carry"},
	"dpo.gradient_checkpointing": {now: "optimizer.gradient_checkpointing"},
	"dpo.max_grad_norm":          {now: "optimizer.max_grad_norm"},
	"dpo.weight_decay":           {now: "optimizer.weight_decay"},

	"dpo.learning_rate":                   {now: "optimizer.learning_rate", when: onPairs},
	"dpo.batch_pairs":                     {now: "optimizer.batch", when: onPairs},
	"dpo.epochs":                          {now: "optimizer.epochs", when: onPairs},
	"grpo.learning_rate":                  {now: "optimizer.learning_rate", when: by("grpo")},
	"grpo.batch_prompts":                  {now: "optimizer.batch", when: by("grpo")},
	"grpo.num_iterations":                 {now: "optimizer.epochs", when: by("grpo")},
	"private_evolution_sft.learning_rate": {now: "optimizer.learning_rate", when: by("private_evolution_sft")},
	"private_evolution_sft.batch":         {now: "optimizer.batch", when: by("private_evolution_sft")},
	"private_evolution_sft.epochs":        {now: "optimizer.epochs", when: by("private_evolution_sft")},

	"downstream.learning_rate": {now: "downstream.learning_rates", item: true},

	"scoring.words": {is: always(0), why: "rows with weights of words taught no more than others"},

	"dpo.adam_beta1": {is: always(0.9), why: adam},
	"dpo.adam_beta2": {is: always(0.999), why: adam},
	"dpo.adam_eps":   {is: always(1e-8), why: adam},

	"generate.template_separator": {is: func(c Config) any {
		if c.Generate.TemplateHeader+c.Generate.TemplateItem == "" {
			return nil
		}
		return "line_end"
	}, why: "the line of generate.template_item tells texts apart"},
	"generate.distinct_examples": {is: func(c Config) any {
		if c.Generate.Examples < 2 {
			return nil
		}
		return c.Generate.TemplateItem != ""
	}, why: "the texts of generate.template_item differ"},
	"generate.end_of_text": {is: func(c Config) any {
		if c.Generate.CutSamples {
			return "always"
		}
		return "stopped"
	}, why: "generate.cut_samples decides it"},

	"fed.collect": {is: func(c Config) any {
		if c.Fed.Elsewhere() {
			return "shards"
		}
		return "in_process"
	}, why: "fed.clients above 0 means clients in shards"},

	"scoring.client_texts": {is: always(4), why: "it is of little weight, and how many texts clients have is private"},
	"fed.dropout": {is: always(0),
		why: "the clients of a run are in memory or in shards, where none drops out"},

	"downstream.schedule": {now: "downstream.recipe", as: map[string]string{"cosine": "brief", "constant": "distilgpt2",
		"linear": "bert"}},
	"downstream.rows":          {is: trained(func(r Recipe) any { return r.Rows }), why: recipe},
	"downstream.warmup_steps":  {is: trained(func(r Recipe) any { return r.WarmupSteps }), why: recipe},
	"downstream.weight_decay":  {is: trained(func(r Recipe) any { return r.WeightDecay }), why: recipe},
	"downstream.max_grad_norm": {is: trained(func(r Recipe) any { return r.MaxGradNorm }), why: recipe},
	"downstream.dropout":       {is: trained(func(r Recipe) any { return r.Dropout }), why: recipe},

	"downstream.gradient_checkpointing": {is: always(false), why: "downstream.micro_texts bounds the memory"},
	"downstream.patience": {is: always(0),
		why: "training sets are compared after the same number of updates"},
	"downstream.bootstrap": {is: always(1000),
		why: "fewer resamples make intervals that vary from seed to seed"},

	"private_evolution.metric": {is: always("l2"), why: papers},
	"private_evolution.per_text": {is: always(false),
		why: "shorter vectors than the bound hide more texts behind the noise"},
	"private_evolution.clip": {now: "scoring.clip_norm", when: by("private_evolution")},
	"private_evolution.noise_factor": {is: always(1),
		why: "more noise than the budget needs helps nobody; privacy.noise_multiplier sets it"},
	"private_evolution.mask_share": {is: always(0.3), why: papers},
	"private_evolution.accumulate": {is: always("all"), why: papers},
	"private_evolution.look_ahead": {is: evolving(0, 4), why: papers},
	"private_evolution_sft.share": {is: of("private_evolution_sft", 0.1),
		why: "a larger share dilutes what clients like, a smaller one is memorised"},

	"public_selection.rows": {is: func(c Config) any {
		if c.Method != "public_selection" && c.Scoring.Release != "once" {
			return nil
		}
		return SelectedRows
	}, why: "more rows of the same texts teach nothing more"},
	"public_selection.effective": {is: func(c Config) any { return Effective(c.PublicSelection.Texts) },
		why: "fewer texts repeat too often, and half of few are enough"},
	"public_selection.head_weight": {is: always(3), why: "public_selection.head says as much"},

	"public_selection.head": {is: func(c Config) any { return Head(c.PublicSelection.Texts) },
		why: "it is a share of the candidates"},
	"public_selection.documents": {is: always(true), why: "texts without a source are judged alone anyway"},
	"scoring.features":           {is: always("mean"), why: "no features of embeddings told public texts better"},
	"scoring.feature_count":      {is: always(nil), why: "there are no features of embeddings"},
	"scoring.feature_share":      {is: always(nil), why: "there are no features of embeddings"},
	"warmup.learning_rate": {is: func(c Config) any {
		if c.Warmup.Steps == 0 {
			return nil
		}
		return c.Optimizer.LearningRate
	}, why: "optimizer.learning_rate is that of the warm-up, too"},
	"warmup.batch": {is: func(c Config) any {
		if c.Warmup.Steps == 0 {
			return nil
		}
		return WarmupBatch
	}, why: "the learning rate was found with this number"},
	"dpo.pair_margin": {is: func(c Config) any {
		if c.DPO.Pairs != "margin" {
			return nil
		}
		return 1
	}, why: "dpo.pairs \"margin\" means one standard deviation"},
	"dpo.non_finite":  {is: always("stop"), why: "skipping hides a learning rate that is too high"},
	"dpo.fid_texts":   {is: onFID(func(prompts, samples int) int { return prompts * samples }), why: fid},
	"dpo.fid_samples": {is: onFID(func(_, samples int) int { return samples }), why: fid},
	"synthetic.max_new_tokens": {is: func(c Config) any { return c.Generate.MaxNewTokens },
		why: "generate.max_new_tokens bounds every text"},
	"synthetic.examples": {is: func(c Config) any {
		if !slices.Contains(tuning, c.Method) {
			return nil
		}
		return c.Generate.Quote
	},
		why: "generate.quote says what the prompts of rounds and product quote"},

	"grpo.epsilon_high": {zero: true, is: func(c Config) any { return c.GRPO.Epsilon },
		why: "grpo.epsilon bounds both sides"},
	"grpo.micro_samples": {is: func(c Config) any {
		if c.Method != "grpo" {
			return nil
		}
		return 2 * c.DPO.MicroPairs
	}, why: "dpo.micro_pairs bounds the memory"},
}

const papers = "the papers on Private Evolution do so"

const fid = "a measurement reads each prompt of a round"

const moments = "optimizer.carry says it of schedule and moments, and TRL keeps none"

func (c Config) moments() any { return c.CarriesMoments() }

const adam = "adapters are trained with the values of AdamW's paper everywhere"

const recipe = "downstream.recipe decides it"

// trained is a part of the recipe by which the small model is trained.
func trained(part func(Recipe) any) func(Config) any {
	return func(c Config) any { return part(c.Downstream.Training()) }
}

// of is a value of the runs of a method; nil in others.
func of(method string, value any) func(Config) any {
	return func(c Config) any {
		if c.Method != method {
			return nil
		}
		return value
	}
}

// evolving is a value of the runs of Private Evolution by its two variants; nil in runs of other methods.
func evolving(augPE, preText any) func(Config) any {
	return func(c Config) any {
		if c.PrivateEvolution.Variant == "aug_pe" {
			return of("private_evolution", augPE)(c)
		}
		return of("private_evolution", preText)(c)
	}
}

func by(method string) func(Config) bool { return func(c Config) bool { return c.Method == method } }

// onPairs says no for the methods that had the section dpo's rates in their own section.
func onPairs(c Config) bool { return !by("grpo")(c) && !by("private_evolution_sft")(c) }

// onFID applies to the runs that measure the Fréchet distance.
func onFID(of func(prompts, samples int) int) func(Config) any {
	return func(c Config) any {
		if c.DPO.Best != "fid" {
			return nil
		}
		return of(c.Generate.FIDDraws())
	}
}

func always(value any) func(Config) any { return func(Config) any { return value } }

// checkGone refuses values of keys that the program no longer has, unless it works by these values.
func (l *loader) checkGone(c Config) {
	for name, v := range l.gone {
		f := formerly[name]
		if is := f.is(c); is != nil && fmt.Sprint(is) != fmt.Sprint(v.value) {
			l.add(v.where, name, "is %s, but the key is gone: the value is %v, because %s", describe(v.value), is,
				f.why)
		}
	}
}

// Present returns the settings of an earlier version's run under today's names. A value of a key that is gone stays
// only where the program works by another one with c.
func (c Config) Present(settings map[string]string) map[string]string {
	l, old, out := newLoader(c), layer{}, map[string]string{}
	for name, text := range settings {
		if _, ok := formerly[name]; ok {
			l.set(old, name, parse(name, text), "")
		} else {
			out[name] = text
		}
	}
	for name, v := range old {
		out[name] = fmt.Sprint(v.value)
		if more := strings.Trim(settings[name], "[]"); formerly[v.name].item && more != "" {
			out[name] = strings.TrimSuffix(out[name], "]") + " " + more + "]"
		}
	}
	l.checkGone(c)
	for _, p := range l.problems {
		out[p.Key] = settings[p.Key]
	}
	return out
}
