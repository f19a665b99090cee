package configs

import "fmt"

// formerly has the keys of earlier versions, so that their files, variables and --set still mean what they meant, and the
// folders of their runs can be resumed, reported and audited.
var formerly = map[string]struct {
	now   string           // the key that holds its values today; "" if the program decides
	ratio bool             // 0 is no value, because another old key has it then
	is    func(Config) any // what the program does where there is no key; nil accepts any value
	why   string           // of that
}{
	"dpo.schedule":               {now: "optimizer.schedule"},
	"dpo.min_learning_rate":      {now: "optimizer.min_learning_rate"},
	"dpo.warmup_steps":           {now: "optimizer.warmup_steps"},
	"dpo.warmup_ratio":           {now: "optimizer.warmup_steps", ratio: true},
	"dpo.carry_optimizer":        {now: "optimizer.carry_moments"},
	"dpo.carry_schedule":         {now: "optimizer.carry_schedule"},
	"dpo.gradient_checkpointing": {now: "optimizer.gradient_checkpointing"},
	"dpo.max_grad_norm":          {now: "optimizer.max_grad_norm"},
	"dpo.weight_decay":           {now: "optimizer.weight_decay"},

	"dpo.adam_beta1": {is: always(0.9), why: adam},
	"dpo.adam_beta2": {is: always(0.999), why: adam},
	"dpo.adam_eps":   {is: always(1e-8), why: adam},
}

const adam = "adapters are trained with the values of AdamW's paper everywhere"

func always(value any) func(Config) any { return func(Config) any { return value } }

// checkGone refuses values of keys that the program no longer has, unless it works by these values.
func (l *loader) checkGone(c Config) {
	for name, v := range l.gone {
		f := formerly[name]
		if is := f.is(c); is != nil && fmt.Sprint(is) != fmt.Sprint(v.value) {
			l.add(v.where, name, "is %s, but the key is gone: it is always %v, because %s", describe(v.value), is, f.why)
		}
	}
}

// Present returns the settings of an earlier version's run under today's names. A value of a key that is gone stays only
// where the program works by another one with c.
func (c Config) Present(settings map[string]string) map[string]string {
	l, old, out := newLoader(), layer{}, map[string]string{}
	for name, text := range settings {
		if _, ok := formerly[name]; ok {
			l.set(old, name, parse(name, text), "")
		} else {
			out[name] = text
		}
	}
	for name, v := range old {
		out[name] = fmt.Sprint(v.value)
	}
	l.checkGone(c)
	for _, p := range l.problems {
		out[p.Key] = settings[p.Key]
	}
	return out
}
