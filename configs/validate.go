package configs

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/configs/losses"
	"popri/internal/quote"
)

// The values of settings that have a list of names. Any other name is refused with this list.
var (
	dtypes          = []string{"auto", "float32", "bfloat16"}
	devices         = []string{"auto", "cpu", "cuda"}
	normalizers     = []string{"none", "standardize"}
	denoisers       = []string{"none", "project"}
	objectives      = []string{"similarity", "witness"}
	samplings       = []string{"full", "poisson", "fixed", "tree"}
	trainers        = []string{Local, TRL}
	bests           = []string{"last", "pairs", "fid"}
	schedules       = []string{"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_min_lr"}
	releases        = []string{"rounds", "compact", "votes", "once"}
	quotes          = []string{"public", "relevant", "scored"}
	weightTypes     = []string{"float32", "compute"}
	sampleWeights   = []string{"compute", "int8"}
	mixes           = []string{"fixed", "validated"}
	longTexts       = []string{"drop", "cut"}
	duplicates      = []string{"skip", "index", "published"}
	roundSelections = []string{"last", "distance", "fid", "validation"}
)

// Encoders are the values of scoring.encoder that need no folder.
var Encoders = []string{"latent", "hashing"}

// Fetched is the value of scoring.encoder for the one that the set-up fetches.
const Fetched = "minilm"

// TRL is the value of dpo.engine for TRL's DPOTrainer.
const TRL = "trl"

// Upper bounds far beyond any use, so that products of two stay within 64 bits.
const (
	maxCount     = 1 << 30
	maxTokens    = 1 << 20
	maxDimension = 1 << 16
)

// Validate checks every value and returns an [*Invalid] with all that are impossible, or nil. What depends on the data
// (delta against the number of clients, lengths against the model's context) is checked where the data are known.
func (c Config) Validate() error { return c.check(&Report{}) }

// check is [Config.Validate] by a Report that can be looked at afterwards.
func (c Config) check(v *Report) error {
	v.utf8(c)
	if len(methods) > 0 {
		v.OneOf("method", c.Method, methodNames(func(Method) bool { return true }))
	}

	v.data(c)
	v.model(c)
	v.generate(c)
	v.scoring(c)
	v.fed(c)
	v.privacy(c)
	v.lora(c)
	v.optimizer(c)
	v.preference(c)
	v.trainer(c)
	v.synthetic(c)
	v.downstream(c.Downstream)

	v.Count("warmup.steps", c.Warmup.Steps, 0, maxCount)
	v.once(c)
	v.trains(c)
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

// data checks the section data.
func (v *Report) data(c Config) {
	v.Text("data.private", c.Data.Private, `"godoc", the path of a Parquet file of clients, or "none"`)
	if s := c.Data.Since; !beginsDate(s) {
		v.Add("data.since", "is %q, must be a date (1945-06-30), its beginning (1945 or 1945-06), or nothing", s)
	}
	v.Text("data.public", c.Data.Public, `"godoc" or the path of a file of public texts`)
	v.Count("data.train_clients", c.Data.TrainClients, 0, maxCount)
	v.Count("data.max_tokens", c.Data.MaxTokens, 8, maxTokens)
	v.OneOf("data.long_texts", c.Data.LongTexts, longTexts)
}

// model checks the section model.
func (v *Report) model(c Config) {
	v.Text("model.path", c.Model.Path, `"embedded", "trained", "smollm2", a model folder or a name on the hub`)
	v.OneOf("model.dtype", c.Model.DType, dtypes)
	v.OneOf("model.weights", c.Model.Weights, weightTypes)
	v.OneOf("model.device", c.Model.Device, devices)
	v.Count("model.threads", c.Model.Threads, 0, 1024)
}

// generate checks the section generate.
func (v *Report) generate(c Config) {
	v.engine(c)
	v.OneOf("generate.weights", c.Generate.Weights, sampleWeights)
	if c.Generate.Weights == "int8" {
		if c.Generate.Engine != Local {
			v.Add("generate.weights", "is int8, which generate.engine %q does not have", c.Generate.Engine)
		}
		if c.Model.Weights == "compute" {
			v.Add("generate.weights",
				"is int8: model.weights must be float32, because a copy of the model draws the samples")
		}
		if c.Model.DType == "float32" {
			v.Add("generate.weights", "is int8: model.dtype must be bfloat16 or auto, not float32")
		}
	}
	v.Count("generate.prompts", c.Generate.Prompts, 1, maxCount)
	v.Count("generate.samples", c.Generate.Samples, 2, 1<<16)
	v.Count("generate.examples", c.Generate.Examples, 0, 1000)
	if c.Generate.ByLabel && c.Generate.Examples == 0 {
		v.Add("generate.examples",
			"is 0, must be at least 1 where generate.by_label is true: the quoted texts show the label")
	}
	v.Above("generate.temperature", c.Generate.Temperature, 0, 100)
	v.Above("generate.top_p", c.Generate.TopP, 0, 1)
	v.Count("generate.max_new_tokens", c.Generate.MaxNewTokens, 1, maxTokens)
	v.Count("generate.min_new_tokens", c.Generate.MinNewTokens, 0, maxTokens)
	if c.Generate.MinNewTokens > c.Generate.MaxNewTokens {
		v.Add("generate.min_new_tokens", "is %d, must be at most generate.max_new_tokens, which is %d",
			c.Generate.MinNewTokens, c.Generate.MaxNewTokens)
	}
	v.Count("generate.batch_tokens", c.Generate.BatchTokens, 1, maxCount)
	if strings.Contains(c.Generate.TemplateItem, "\n") {
		v.Add("generate.template_item", "is %q, must be one line", c.Generate.TemplateItem)
	}

	if begin, _, _ := strings.Cut(c.Generate.TemplateItem, "{i}"); c.Generate.TemplateItem != "" &&
		strings.TrimSpace(begin) == "" {
		v.Add("generate.template_item", "is %q, must begin with words before {i}: a sample ends where they occur "+
			"again", c.Generate.TemplateItem)
	}
	v.OneOf("generate.quote", c.Generate.Quote, quotes)
}

// scoring checks the section scoring.
func (v *Report) scoring(c Config) {
	if c.Scoring.Encoder == "" {
		v.Add("scoring.encoder", "is not set: it is required, the path of a sentence-transformers folder such as "+
			"./all-MiniLM-L6-v2, the paper's, or %s, which need none",
			strings.Join(Encoders, " or "))
	} else if !slices.Contains(Encoders, c.Scoring.Encoder) && c.Scoring.Encoder != Fetched &&
		!strings.ContainsAny(c.Scoring.Encoder, `/\`) {
		v.Add("scoring.encoder",
			"is %q, available: %s, %s, the path of a folder (./name) or a name on the hub (org/name)",
			c.Scoring.Encoder,
			strings.Join(Encoders, ", "), Fetched)
	}
	v.Count("scoring.dim", c.Scoring.Dim, 2, maxDimension)
	v.OneOf("scoring.normalize", c.Scoring.Normalize, normalizers)
	v.Above("scoring.clip_norm", c.Scoring.ClipNorm, 0, 1e6)
	v.OneOf("scoring.release", c.Scoring.Release, releases)
	if f := c.Scoring.Form; !(f >= 0 && f <= 10) {
		v.Add("scoring.form", "is %v, must be 0 to 10", f)
	}
	v.OneOf("scoring.denoise", c.Scoring.Denoise, denoisers)
	v.OneOf("scoring.objective", c.Scoring.Objective, objectives)
	v.OneOf("scoring.duplicates", c.Scoring.Duplicates, duplicates)
}

// privacy checks the section privacy.
func (v *Report) privacy(c Config) {
	v.Above("privacy.epsilon", c.Privacy.Epsilon, 0, 1e4)
	if d := c.Privacy.Delta; !(d > 0 && d < 1) {
		v.Add("privacy.delta", "is %v, must be above 0 and below 1 (and below 1/clients)", d)
	}
	if c.Privacy.UnsafeCeiling && c.Warmup.Steps == 0 {
		v.Add("privacy.unsafe_ceiling", "is true, which needs warmup.steps above 0: the adapters are warmed up on the "+
			"clients' texts")
	}
	v.Count("privacy.group", c.Privacy.Group, 1, 1000)
	v.Between("privacy.noise_multiplier", c.Privacy.NoiseMultiplier, 0, 1e6)
}

// trainer checks the section trainer.
func (v *Report) trainer(c Config) {
	v.Count("trainer.rounds", c.Trainer.Rounds, 1, 1<<20)
	v.OneOf("trainer.select", c.Trainer.Select, roundSelections)
	v.Count("trainer.patience", c.Trainer.Patience, 0, 1<<20)
	v.Between("trainer.max_hours", c.Trainer.MaxHours, 0, 1e6)
	if c.Trainer.Patience > 0 && c.Trainer.Select == "last" {
		v.Add("trainer.patience",
			"is %d, which needs trainer.select \"distance\" or \"fid\": nothing else tells whether rounds help",
			c.Trainer.Patience)
	}
}

// synthetic checks the section synthetic.
func (v *Report) synthetic(c Config) {
	v.Count("synthetic.texts", c.Synthetic.Texts, 1, maxCount)
	v.Above("synthetic.kept", c.Synthetic.Kept, 0, 1)
	v.OneOf("synthetic.mix", c.Synthetic.Mix, mixes)
	v.Count("synthetic.samples", c.Synthetic.Samples, 1, 1<<16)
	v.Above("synthetic.temperature", c.Synthetic.Temperature, 0, 100)
	v.Count("synthetic.public_texts", c.Synthetic.PublicTexts, 0, maxCount)
}

// lora checks the section lora.
func (v *Report) lora(c Config) {
	l := c.LoRA
	v.Count("lora.rank", l.Rank, 1, 4096)
	v.Above("lora.alpha", l.Alpha, 0, 1e6)
	for i, target := range l.Targets {
		if target == "" || slices.Contains(l.Targets[:i], target) {
			v.Add("lora.targets", "holds %q empty or twice", target)
		}
	}
}

// preference checks the section dpo.
func (v *Report) preference(c Config) {
	d := c.DPO
	v.OneOf("dpo.loss", d.Loss, losses.Names(nil))
	loss, known := losses.Find(d.Loss)
	v.Above("dpo.beta", d.Beta, 0, 1e3)
	if e := d.LabelSmoothing; !(e >= 0 && e < 0.5) {
		v.Add("dpo.label_smoothing", "is %v, must be at least 0 and below 0.5", e)
	} else if e > 0 && known && !loss.Smoothed {
		v.Add("dpo.label_smoothing",
			"is %v, must be 0 where dpo.loss is %q: only %s have it (cdpo is the smoothed sigmoid)", e, d.Loss,
			strings.Join(losses.Names(func(l losses.Loss) bool { return l.Smoothed }), ", "))
	} else if e == 0 && d.Loss == "exo_pair" {
		v.Add("dpo.label_smoothing", "is 0, must be above 0 where dpo.loss is \"exo_pair\": its paper recommends 1e-3")
	}
	v.Between("dpo.sft_weight", d.SFTWeight, 0, 1e3)
	v.Count("dpo.max_length", d.MaxLength, 0, maxTokens)
	if d.MaxLength == 1 {
		v.Add("dpo.max_length", "is 1, which holds no prompt with a completion")
	}
	v.Count("dpo.rejected_rank", d.RejectedRank, 2, maxCount)
	if d.RejectedRank > c.Generate.Samples && c.Generate.Samples >= 2 {
		v.Add("dpo.rejected_rank", "is %d, must be at most generate.samples, which is %d", d.RejectedRank,
			c.Generate.Samples)
	}
	v.Count("dpo.micro_pairs", d.MicroPairs, 0, maxCount)
	if e := d.EvalShare; !(e >= 0 && e < 1) {
		v.Add("dpo.eval_share", "is %v, must be at least 0 and below 1", e)
	}
	v.OneOf("dpo.best", d.Best, bests)
	v.OneOf("dpo.engine", d.Engine, trainers)
	if d.Engine == TRL {
		v.trl(c)
	}
}

// once checks the settings that depend on how often clients are asked.
func (v *Report) once(c Config) {
	if c.Scoring.Release == "votes" && c.tunes() {
		const reason = "where scoring.release is \"votes\": votes are no cosines with the clients' mean"
		if c.Scoring.Objective != "similarity" {
			v.Add("scoring.objective", "is %q, must be \"similarity\" %s", c.Scoring.Objective, reason)
		}
		if c.Scoring.Denoise != "none" {
			v.Add("scoring.denoise", "is %q, must be \"none\" %s", c.Scoring.Denoise, reason)
		}
	}
	v.kinds(c)
	if c.Scoring.Release == "once" {
		return
	}
	const reason = "needs scoring.release \"once\": the public texts that are relevant to the clients must be known " +
		"before the first round"
	if c.Trainer.Select == "distance" {
		v.Add("trainer.select",
			"is \"distance\", which needs scoring.release \"once\": %q releases no distance of the samples "+
				"from the clients", c.Scoring.Release)
	}
	if c.Scoring.Form > 0 && c.tunes() {
		v.Add("scoring.form", "is %v, which needs scoring.release \"once\": scores of a round's samples are cosines",
			c.Scoring.Form)
	}
	if c.Generate.Quote == "relevant" {
		v.Add("generate.quote", "is \"relevant\", which %s", reason)
	}
	if c.Synthetic.PublicTexts > 0 {
		v.Add("synthetic.public_texts", "is %d, which %s", c.Synthetic.PublicTexts, reason)
	}
	if c.Synthetic.Kept < 1 {
		v.Add("synthetic.kept", "is %v, which %s", c.Synthetic.Kept, reason)
	}
	if c.Warmup.Steps > 0 {
		v.Add("warmup.steps", "is %d, which %s", c.Warmup.Steps, reason)
	}
}

// trains checks what depends on the method's kind.
func (v *Report) trains(c Config) {
	const key = "fed.sampling"
	switch s, m := c.Fed.Sampling, c.method(); {
	case m.Samplings == nil && s == "tree":
		v.Add(key, "is \"tree\", which needs the method %q: the nodes of a tree are sums of model updates",
			methodNames(func(m Method) bool { return slices.Contains(m.Samplings, s) }))
	case m.Samplings != nil && slices.Contains(samplings, s) && !slices.Contains(m.Samplings, s):
		v.Add(key, "is %q, must be %q where method is %q", s, m.Samplings, m.Name)
	}
	if c.Trainer.Select == "validation" && !c.Learns() && len(methods) > 0 {
		v.Add("trainer.select", "is \"validation\", which needs a method that trains the small model: %q",
			methodNames(func(m Method) bool { return m.Trains == SmallModel }))
	}
	if !c.Learns() {
		return
	}
	v.Refuse(c, fmt.Sprintf("where method is %q: clients answer with model updates", c.Method), "fed.clients",
		"aggregate.least", "privacy.unsafe_diagnostics", "privacy.unsafe_ceiling", "downstream.task")
}

// Report collects what is wrong with a configuration.
type Report struct {
	problems []Problem
	choices  map[string][]string // filled by OneOf, where not nil
}

// Choices returns the values of a key that has a list of them, else nil.
func Choices(key string) []string {
	v := &Report{choices: map[string][]string{}}
	Default().check(v)
	return v.choices[key]
}

// Add reports a value by its key.
func (v *Report) Add(key, format string, args ...any) {
	v.problems = append(v.problems, Problem{Key: key, Text: quote.Sprintf(format, args...)})
}

// utf8 refuses texts that the files of a run cannot hold, such as a path in another encoding.
func (v *Report) utf8(c Config) {
	for _, k := range keys {
		if value, _ := c.Get(k.Name); !utf8.ValidString(fmt.Sprint(value)) {
			v.Add(k.Name, "is %q, must be UTF-8", value)
		}
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

// OneOf wants one of a list of names.
func (v *Report) OneOf(key, value string, allowed []string) {
	if v.choices != nil {
		v.choices[key] = allowed
	}
	if !slices.Contains(allowed, value) {
		v.Add(key, "is %q, available: %s", value, strings.Join(allowed, ", "))
	}
}

// Count wants low <= value <= high.
func (v *Report) Count(key string, value, low, high int) {
	if value < low || value > high {
		v.Add(key, "is %d, must be %d to %d", value, low, high)
	}
}

// Above wants low < value <= high, which NaN is not.
func (v *Report) Above(key string, value, low, high float64) {
	if !(value > low && value <= high) {
		v.Add(key, "is %v, must be above %v and at most %v", value, low, high)
	}
}

// Between wants low <= value <= high, which NaN is not.
func (v *Report) Between(key string, value, low, high float64) {
	if !(value >= low && value <= high) {
		v.Add(key, "is %v, must be %v to %v", value, low, high)
	}
}

// kinds checks what a search for kinds of text needs.
func (v *Report) kinds(c Config) {
	g := c.Generate
	if g.Chat && (g.TemplateHeader == "" || g.TemplateItem == "") {
		v.Add("generate.chat", "is true, which needs a template_header, the user's turn, and a template_item")
	}
	if g.Kinds == "" {
		return
	}
	refuse := func(reason string) { v.Add("generate.kinds", "is %q, which needs %s", g.Kinds, reason) }
	if !strings.Contains(g.TemplateHeader, KindPlace) || g.TemplateItem == "" {
		refuse("a template_header that holds " + KindPlace + ", where prompts name the kind, and a template_item")
	}
	if g.Quote != "scored" || g.Examples == 0 {
		refuse(`generate.quote "scored" and generate.examples of 1 or more: the samples that prompts quote tell the kind`)
	}
	if c.Scoring.Release != "once" {
		refuse(`scoring.release "once", which scores the samples of each kind`)
	}
	if g.ByLabel {
		refuse("generate.by_label to be false: what is written for a kind of text has no label")
	}
}
