package configs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/configs/losses"
	"popri/internal/quote"
)

// Encoders are the values of scoring.encoder that need no folder.
var Encoders = []string{"latent", "hashing"}

// fetchedEncoder is the value of scoring.encoder for the one that the set-up fetches.
const fetchedEncoder = "minilm"

// TRL is the value of dpo.engine for TRL's DPOTrainer.
const TRL = "trl"

// Validate checks every value and returns an [*Invalid] with all that are impossible, or nil. What depends on the data
// (delta against the number of clients, lengths against the model's context) is checked where the data are known.
func (c Config) Validate() error {
	v := &Report{}
	for _, check := range []func(Config){v.each, v.data, v.generate, v.scoring, v.fed, v.privacy, v.lora, v.optimizer,
		v.preference, v.trainer, v.downstream, v.once, v.trains} {
		check(c)
	}
	for _, s := range registry {
		s.check(v, c)
	}
	if check := c.method().Check; check != nil {
		check(v, c)
	}
	if len(v.problems) == 0 {
		return nil
	}
	sortProblems(v.problems)
	return &Invalid{v.problems}
}

// data checks the sections data and model.
func (v *Report) data(c Config) {
	v.Text("data.private", c.Data.Private, `"godoc", the path of a Parquet file of clients, or "none"`)
	if s := c.Data.Since; !beginsDate(s) {
		v.Add("data.since", "is %q, must be a date (1945-06-30), its beginning (1945 or 1945-06), or nothing", s)
	} else if of := c.Fed.Sampling; s != "" && (of == "fixed" || of == "tree") {
		v.Add("data.since", "is %q, must be empty where fed.sampling is %q: whether one client has such a text would decide in "+
			"which round others take part", s, of)
	}
	v.Text("data.public", c.Data.Public, `"godoc" or the path of a file of public texts`)
	v.Text("model.path", c.Model.Path, `"embedded", "trained", "smollm2", a model folder or a name on the hub`)
}

// generate checks the section generate.
func (v *Report) generate(c Config) {
	v.engine(c)
	g := c.Generate
	if g.Weights == "int8" {
		const key = "generate.weights"
		v.addIf(g.Engine != localEngine, key, "is int8, which generate.engine %q does not have", g.Engine)
		v.addIf(c.Model.Weights == "compute", key,
			"is int8: model.weights must be float32, because a copy of the model draws the samples")
		v.addIf(c.Model.DType == "float32", key, "is int8: model.dtype must be bfloat16 or auto, not float32")
	}
	v.addIf(g.ByLabel && g.Examples == 0, "generate.examples",
		"is 0, must be at least 1 where generate.by_label is true: the quoted texts show the label")
	v.addIf(g.MinNewTokens > g.MaxNewTokens, "generate.min_new_tokens",
		"is %d, must be at most generate.max_new_tokens, which is %d", g.MinNewTokens, g.MaxNewTokens)
	v.addIf(strings.Contains(g.TemplateItem, "\n"), "generate.template_item", "is %q, must be one line", g.TemplateItem)
	begin, _, _ := strings.Cut(g.TemplateItem, "{i}")
	v.addIf(g.TemplateItem != "" && strings.TrimSpace(begin) == "", "generate.template_item",
		"is %q, must begin with words before {i}: a sample ends where they occur again", g.TemplateItem)
}

// scoring checks the section scoring.
func (v *Report) scoring(c Config) {
	if c.Scoring.Encoder == "" {
		v.Add("scoring.encoder", "is not set: it is required, the path of a sentence-transformers folder such as "+
			"./all-MiniLM-L6-v2, the paper's, or %s, which need none", strings.Join(Encoders, " or "))
	} else if !slices.Contains(Encoders, c.Scoring.Encoder) && c.Scoring.Encoder != fetchedEncoder &&
		!strings.ContainsAny(c.Scoring.Encoder, `/\`) {
		v.Add("scoring.encoder", "is %q, available: %s, %s, the path of a folder (./name) or a name on the hub "+
			"(org/name)", c.Scoring.Encoder, strings.Join(Encoders, ", "), fetchedEncoder)
	}
}

// privacy checks the section privacy.
func (v *Report) privacy(c Config) {
	d := c.Privacy.Delta
	v.addIf(!(d > 0 && d < 1), "privacy.delta", "is %v, must be above 0 and below 1 (and below 1/clients)", d)
}

// trainer checks the section trainer.
func (v *Report) trainer(c Config) {
	v.addIf(c.Trainer.Patience > 0 && c.Trainer.Select == "last", "trainer.patience",
		"is %d, which needs trainer.select \"distance\" or \"fid\": nothing else tells whether rounds help",
		c.Trainer.Patience)
}

// lora checks the section lora.
func (v *Report) lora(c Config) {
	for i, target := range c.LoRA.Targets {
		v.addIf(target == "" || slices.Contains(c.LoRA.Targets[:i], target), "lora.targets",
			"holds %q empty or twice", target)
	}
}

// preference checks the section dpo.
func (v *Report) preference(c Config) {
	d := c.DPO
	loss, known := losses.Find(d.Loss)
	if e := d.LabelSmoothing; !(e >= 0 && e < 0.5) {
		v.Add("dpo.label_smoothing", "is %v, must be at least 0 and below 0.5", e)
	} else if e > 0 && known && !loss.Smoothed {
		v.Add("dpo.label_smoothing",
			"is %v, must be 0 where dpo.loss is %q: only %s have it (cdpo is the smoothed sigmoid)", e, d.Loss,
			strings.Join(losses.Names(func(l losses.Loss) bool { return l.Smoothed }), ", "))
	} else if e == 0 && d.Loss == "exo_pair" {
		v.Add("dpo.label_smoothing", "is 0, must be above 0 where dpo.loss is \"exo_pair\": its paper recommends 1e-3")
	}
	v.addIf(d.MaxLength == 1, "dpo.max_length", "is 1, which holds no prompt with a completion")
	v.addIf(d.RejectedRank > c.Generate.Samples && c.Generate.Samples >= 2, "dpo.rejected_rank",
		"is %d, must be at most generate.samples, which is %d", d.RejectedRank, c.Generate.Samples)
	if d.Engine == TRL {
		v.trl(c)
	}
}

// once checks the settings that depend on how often clients are asked.
func (v *Report) once(c Config) {
	if r := c.Scoring.Release; (r == "votes" || r == "clipped") && c.tunes() {
		reason := fmt.Sprintf("where scoring.release is %q: scores are no cosines with the clients' mean", r)
		v.addIf(c.Scoring.Objective != "similarity", "scoring.objective", "is %q, must be \"similarity\" %s",
			c.Scoring.Objective, reason)
		v.addIf(c.Scoring.Denoise != "none", "scoring.denoise", "is %q, must be \"none\" %s", c.Scoring.Denoise, reason)
	}
	v.kinds(c)
	if c.Scoring.Release == "once" {
		return
	}
	const reason = "needs scoring.release \"once\": the public texts that are relevant to the clients must be known " +
		"before the first round"
	v.addIf(c.Trainer.Select == "distance", "trainer.select",
		"is \"distance\", which needs scoring.release \"once\": %q releases no distance of the samples from the clients",
		c.Scoring.Release)
	const cosines = "is %v, which needs scoring.release \"once\": scores of a round's samples are cosines"
	v.addIf(c.Scoring.Form > 0 && c.tunes(), "scoring.form", cosines, c.Scoring.Form)
	v.addIf(c.Scoring.Words > 0 && c.tunes(), "scoring.words", cosines, c.Scoring.Words)
	v.addIf(c.Generate.Quote == "relevant", "generate.quote", "is \"relevant\", which %s", reason)
	v.addIf(c.Synthetic.PublicTexts > 0, "synthetic.public_texts", "is %d, which %s", c.Synthetic.PublicTexts, reason)
	v.addIf(c.Synthetic.Kept < 1, "synthetic.kept", "is %v, which %s", c.Synthetic.Kept, reason)
}

// trains checks what depends on the method's kind.
func (v *Report) trains(c Config) {
	const key = "fed.sampling"
	switch s, m := c.Fed.Sampling, c.method(); {
	case m.Samplings == nil && s == "tree":
		v.Add(key, "is \"tree\", which needs the method %s: the nodes of a tree are sums of model updates",
			strings.Join(methodNames(func(m Method) bool { return slices.Contains(m.Samplings, s) }), " or "))
	case m.Samplings != nil && slices.Contains(Choices(key), s) && !slices.Contains(m.Samplings, s):
		v.Add(key, "is %q, must be %s where method is %q", s, strings.Join(m.Samplings, " or "), m.Name)
	}
	if c.Trainer.Select == "validation" && !c.AtClients() && len(methods) > 0 {
		v.Add("trainer.select", "is \"validation\", which needs a method that trains the small model: %s",
			strings.Join(methodNames(Method.atClients), ", "))
	}
	if !c.AtClients() {
		return
	}
	refused := []string{"privacy.unsafe_diagnostics", "downstream.task"}
	if !c.method().Elsewhere {
		refused = append(refused, "fed.clients", "aggregate.least")
	}
	v.Refuse(c, fmt.Sprintf("where method is %q: clients answer for the small model itself", c.Method), refused...)
}

// Report collects what is wrong with a configuration.
type Report struct {
	problems []Problem
}

// Choices returns the values of a key that has a list of them, else nil.
func Choices(key string) []string {
	switch key {
	case "method":
		return methodNames(func(Method) bool { return true })
	case "dpo.loss":
		return losses.Names(nil)
	case "downstream.recipe":
		return slices.Sorted(maps.Keys(recipes))
	}
	k, _ := lookup(key)
	return k.Choices
}

// Add reports a value by its key.
func (v *Report) Add(key, format string, args ...any) {
	v.problems = append(v.problems, Problem{Key: key, Text: quote.Sprintf(format, args...)})
}

// addIf reports a value that is wrong.
func (v *Report) addIf(wrong bool, key, format string, args ...any) {
	if wrong {
		v.Add(key, format, args...)
	}
}

// each checks each value by itself: it is one of the key's list or within its bounds, and no text that the files of a run
// cannot hold, such as a path in another encoding.
func (v *Report) each(c Config) {
	for _, k := range keys {
		value := k.value(c)
		if text := value.Interface(); !utf8.ValidString(fmt.Sprint(text)) {
			v.Add(k.Name, "is %q, must be UTF-8", text)
		}
		if list := Choices(k.Name); list != nil && !slices.Contains(list, value.String()) {
			v.Add(k.Name, "is %q, available: %s", value.String(), strings.Join(list, ", "))
		}
		switch {
		case k.within == nil:
		case value.Kind() != reflect.Slice:
			v.within(k.Name, value, k.within)
		default:
			for i := range value.Len() {
				v.within(fmt.Sprintf("%s[%d]", k.Name, i), value.Index(i), k.within)
			}
		}
	}
}

// within wants a number of an interval.
func (v *Report) within(key string, value reflect.Value, in *interval) {
	if f := value.Convert(reflect.TypeFor[float64]()).Float(); !in.has(f) {
		v.Add(key, "is %v, must be %s", value.Interface(), in.String())
	}
}

// Refuse wants the given keys to have their default values, for the reason that stands behind "must be …".
func (v *Report) Refuse(c Config, why string, names ...string) {
	standard, _, _ := Preset(DefaultPreset)
	for _, name := range names {
		value, _ := c.Get(name)
		if must, _ := standard.Get(name); value != must {
			v.Add(name, "is %v, must be %v %s", value, must, why)
		}
	}
}

// Text refuses an empty text.
func (v *Report) Text(key, value, meaning string) {
	if strings.TrimSpace(value) == "" {
		v.Add(key, "is not set: it is required, %s", meaning)
	}
}

// kinds checks what a search for kinds of text needs.
func (v *Report) kinds(c Config) {
	g := c.Generate
	v.addIf(g.Chat && (g.TemplateHeader == "" || g.TemplateItem == ""), "generate.chat",
		"is true, which needs a template_header, the user's turn, and a template_item")
	if g.Kinds == "" {
		return
	}
	need := func(ok bool, what string) { v.addIf(!ok, "generate.kinds", "is %q, which needs %s", g.Kinds, what) }
	need(strings.Contains(g.TemplateHeader, KindPlace) && g.TemplateItem != "",
		"a template_header that holds "+KindPlace+", where prompts name the kind, and a template_item")
	need(g.Quote == "scored" && g.Examples > 0,
		`generate.quote "scored" and generate.examples of 1 or more: the samples that prompts quote tell the kind`)
	need(c.Scoring.Release == "once", `scoring.release "once", which scores the samples of each kind`)
	need(!g.ByLabel, "generate.by_label to be false: what is written for a kind of text has no label")
}
