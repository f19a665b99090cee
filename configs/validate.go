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
	dtypes        = []string{"auto", "float32", "bfloat16"}
	devices       = []string{"auto", "cpu", "cuda"}
	normalizers   = []string{"none", "standardize"}
	denoisers     = []string{"none", "project", "pool"}
	objectives    = []string{"similarity", "witness"}
	samplings     = []string{"full", "poisson", "fixed", "tree"}
	trainers      = []string{Local, TRL}
	bests         = []string{"last", "pairs", "fid"}
	schedules     = []string{"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_min_lr"}
	releases      = []string{"rounds", "compact", "votes", "once"}
	weightings    = []string{"matched", "prior"}
	quotes        = []string{"public", "relevant", "scored"}
	weightTypes   = []string{"float32", "compute"}
	sampleWeights = []string{"compute", "int8"}
	mixes         = []string{"fixed", "validated"}
	longTexts     = []string{"drop", "cut"}
	duplicates    = []string{"skip", "index", "published"}

	methods = []string{"popri", "private_evolution", "private_evolution_sft", "grpo", "public_selection", "dp_fedavg",
		"dp_ftrl", "wasp", "hot_pate", "genetic_eda"}
	learning = []string{"dp_fedavg", "dp_ftrl"}                   // methods that train the small model at the clients
	tuning   = []string{"popri", "private_evolution_sft", "grpo"} // methods that train the generator

	evolutionVariants = []string{"pre_text", "aug_pe"}
	variationKinds    = []string{"", "fill", "rephrase", "blank"}
	survivals         = []string{"rank", "sample"}
	evolved           = []string{"", "expansion", "selected"}

	voters = []string{"private", "public", "written"}

	policyLosses    = []string{"grpo", "dr_grpo", "bnpo", "dapo"}
	rewardScales    = []string{"group", "batch", "none"}
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
func (c Config) Validate() error { return c.check(&validator{}) }

// check is [Config.Validate] by a validator that can be looked at afterwards.
func (c Config) check(v *validator) error {
	v.utf8(c)
	v.oneOf("method", c.Method, methods)

	v.text("data.private", c.Data.Private, `"godoc", the path of a Parquet file of clients, or "none"`)
	if s := c.Data.Since; !beginsDate(s) {
		v.add("data.since", "is %q, must be a date (1945-06-30), its beginning (1945 or 1945-06), or nothing", s)
	}
	v.text("data.public", c.Data.Public, `"godoc" or the path of a file of public texts`)
	v.count("data.train_clients", c.Data.TrainClients, 0, maxCount)
	v.count("data.max_tokens", c.Data.MaxTokens, 8, maxTokens)
	v.oneOf("data.long_texts", c.Data.LongTexts, longTexts)

	v.text("model.path", c.Model.Path, `"embedded", "trained", "smollm2", a model folder or a name on the hub`)
	v.oneOf("model.dtype", c.Model.DType, dtypes)
	v.oneOf("model.weights", c.Model.Weights, weightTypes)
	v.oneOf("model.device", c.Model.Device, devices)
	v.count("model.threads", c.Model.Threads, 0, 1024)

	v.engine(c)
	v.oneOf("generate.weights", c.Generate.Weights, sampleWeights)
	if c.Generate.Weights == "int8" {
		if c.Generate.Engine != Local {
			v.add("generate.weights", "is int8, which generate.engine %q does not have", c.Generate.Engine)
		}
		if c.Model.Weights == "compute" {
			v.add("generate.weights",
				"is int8: model.weights must be float32, because a copy of the model draws the samples")
		}
		if c.Model.DType == "float32" {
			v.add("generate.weights", "is int8: model.dtype must be bfloat16 or auto, not float32")
		}
	}
	v.count("generate.prompts", c.Generate.Prompts, 1, maxCount)
	v.count("generate.samples", c.Generate.Samples, 2, 1<<16)
	v.count("generate.examples", c.Generate.Examples, 0, 1000)
	if c.Generate.ByLabel && c.Generate.Examples == 0 {
		v.add("generate.examples",
			"is 0, must be at least 1 where generate.by_label is true: the quoted texts show the label")
	}
	v.above("generate.temperature", c.Generate.Temperature, 0, 100)
	v.above("generate.top_p", c.Generate.TopP, 0, 1)
	v.count("generate.max_new_tokens", c.Generate.MaxNewTokens, 1, maxTokens)
	v.count("generate.min_new_tokens", c.Generate.MinNewTokens, 0, maxTokens)
	if c.Generate.MinNewTokens > c.Generate.MaxNewTokens {
		v.add("generate.min_new_tokens", "is %d, must be at most generate.max_new_tokens, which is %d",
			c.Generate.MinNewTokens, c.Generate.MaxNewTokens)
	}
	v.count("generate.batch_tokens", c.Generate.BatchTokens, 1, maxCount)
	if strings.Contains(c.Generate.TemplateItem, "\n") {
		v.add("generate.template_item", "is %q, must be one line", c.Generate.TemplateItem)
	}

	if begin, _, _ := strings.Cut(c.Generate.TemplateItem, "{i}"); c.Generate.TemplateItem != "" &&
		strings.TrimSpace(begin) == "" {
		v.add("generate.template_item", "is %q, must begin with words before {i}: a sample ends where they occur "+
			"again", c.Generate.TemplateItem)
	}

	if c.Scoring.Encoder == "" {
		v.add("scoring.encoder", "is not set: it is required, the path of a sentence-transformers folder such as "+
			"./all-MiniLM-L6-v2, the paper's, or %s, which need none",
			strings.Join(Encoders, " or "))
	} else if !slices.Contains(Encoders, c.Scoring.Encoder) && c.Scoring.Encoder != Fetched &&
		!strings.ContainsAny(c.Scoring.Encoder, `/\`) {
		v.add("scoring.encoder",
			"is %q, available: %s, %s, the path of a folder (./name) or a name on the hub (org/name)",
			c.Scoring.Encoder,
			strings.Join(Encoders, ", "), Fetched)
	}
	v.count("scoring.dim", c.Scoring.Dim, 2, maxDimension)
	v.oneOf("scoring.normalize", c.Scoring.Normalize, normalizers)
	v.above("scoring.clip_norm", c.Scoring.ClipNorm, 0, 1e6)
	v.oneOf("scoring.release", c.Scoring.Release, releases)
	if f := c.Scoring.Form; !(f >= 0 && f <= 10) {
		v.add("scoring.form", "is %v, must be 0 to 10", f)
	}
	v.oneOf("scoring.denoise", c.Scoring.Denoise, denoisers)
	v.oneOf("scoring.objective", c.Scoring.Objective, objectives)
	v.oneOf("scoring.duplicates", c.Scoring.Duplicates, duplicates)

	v.fed(c)

	v.above("privacy.epsilon", c.Privacy.Epsilon, 0, 1e4)
	if d := c.Privacy.Delta; !(d > 0 && d < 1) {
		v.add("privacy.delta", "is %v, must be above 0 and below 1 (and below 1/clients)", d)
	}
	if c.Privacy.UnsafeCeiling && c.Warmup.Steps == 0 {
		v.add("privacy.unsafe_ceiling", "is true, which needs warmup.steps above 0: the adapters are warmed up on the "+
			"clients' texts")
	}
	v.count("privacy.group", c.Privacy.Group, 1, 1000)
	v.between("privacy.noise_multiplier", c.Privacy.NoiseMultiplier, 0, 1e6)

	v.lora(c)
	v.optimizer(c)
	v.preference(c)

	v.count("trainer.rounds", c.Trainer.Rounds, 1, 1<<20)
	v.oneOf("trainer.select", c.Trainer.Select, roundSelections)
	v.count("trainer.patience", c.Trainer.Patience, 0, 1<<20)
	v.between("trainer.max_hours", c.Trainer.MaxHours, 0, 1e6)
	if c.Trainer.Patience > 0 && c.Trainer.Select == "last" {
		v.add("trainer.patience",
			"is %d, which needs trainer.select \"distance\" or \"fid\": nothing else tells whether rounds help",
			c.Trainer.Patience)
	}

	v.count("synthetic.texts", c.Synthetic.Texts, 1, maxCount)
	v.above("synthetic.kept", c.Synthetic.Kept, 0, 1)
	v.oneOf("synthetic.mix", c.Synthetic.Mix, mixes)
	v.count("synthetic.samples", c.Synthetic.Samples, 1, 1<<16)
	v.above("synthetic.temperature", c.Synthetic.Temperature, 0, 100)

	v.downstream(c.Downstream)

	v.evolution(c.PrivateEvolution)

	v.count("public_selection.texts", c.PublicSelection.Texts, 1, maxCount)
	v.oneOf("public_selection.weights", c.PublicSelection.Weights, weightings)
	v.oneOf("generate.quote", c.Generate.Quote, quotes)
	v.count("synthetic.public_texts", c.Synthetic.PublicTexts, 0, maxCount)
	v.count("warmup.steps", c.Warmup.Steps, 0, maxCount)
	v.once(c)
	v.policyGradient(c)
	v.fedAvg(c)
	v.wasp(c)
	v.hotPATE(c)
	v.genetic(c)

	if len(v.problems) == 0 {
		return nil
	}
	sortProblems(v.problems)
	return &Invalid{v.problems}
}

// lora checks the section lora.
func (v *validator) lora(c Config) {
	l := c.LoRA
	v.count("lora.rank", l.Rank, 1, 4096)
	v.above("lora.alpha", l.Alpha, 0, 1e6)
	for i, target := range l.Targets {
		if target == "" || slices.Contains(l.Targets[:i], target) {
			v.add("lora.targets", "holds %q empty or twice", target)
		}
	}
}

// preference checks the section dpo.
func (v *validator) preference(c Config) {
	d := c.DPO
	v.oneOf("dpo.loss", d.Loss, losses.Names(nil))
	loss, known := losses.Find(d.Loss)
	v.above("dpo.beta", d.Beta, 0, 1e3)
	if e := d.LabelSmoothing; !(e >= 0 && e < 0.5) {
		v.add("dpo.label_smoothing", "is %v, must be at least 0 and below 0.5", e)
	} else if e > 0 && known && !loss.Smoothed {
		v.add("dpo.label_smoothing",
			"is %v, must be 0 where dpo.loss is %q: only %s have it (cdpo is the smoothed sigmoid)", e, d.Loss,
			strings.Join(losses.Names(func(l losses.Loss) bool { return l.Smoothed }), ", "))
	} else if e == 0 && d.Loss == "exo_pair" {
		v.add("dpo.label_smoothing", "is 0, must be above 0 where dpo.loss is \"exo_pair\": its paper recommends 1e-3")
	}
	v.between("dpo.sft_weight", d.SFTWeight, 0, 1e3)
	v.count("dpo.max_length", d.MaxLength, 0, maxTokens)
	if d.MaxLength == 1 {
		v.add("dpo.max_length", "is 1, which holds no prompt with a completion")
	}
	v.count("dpo.rejected_rank", d.RejectedRank, 2, maxCount)
	if d.RejectedRank > c.Generate.Samples && c.Generate.Samples >= 2 {
		v.add("dpo.rejected_rank", "is %d, must be at most generate.samples, which is %d", d.RejectedRank,
			c.Generate.Samples)
	}
	v.count("dpo.micro_pairs", d.MicroPairs, 0, maxCount)
	if e := d.EvalShare; !(e >= 0 && e < 1) {
		v.add("dpo.eval_share", "is %v, must be at least 0 and below 1", e)
	}
	v.oneOf("dpo.best", d.Best, bests)
	v.oneOf("dpo.engine", d.Engine, trainers)
	if d.Engine == TRL {
		v.trl(c)
	}
}

// once checks the settings that depend on how often clients are asked.
func (v *validator) once(c Config) {
	if c.Scoring.Release == "votes" && slices.Contains(tuning, c.Method) {
		const reason = "where scoring.release is \"votes\": votes are no cosines with the clients' mean"
		if c.Scoring.Objective != "similarity" {
			v.add("scoring.objective", "is %q, must be \"similarity\" %s", c.Scoring.Objective, reason)
		}
		if c.Scoring.Denoise != "none" {
			v.add("scoring.denoise", "is %q, must be \"none\" %s", c.Scoring.Denoise, reason)
		}
	}
	v.kinds(c)
	if c.Scoring.Release == "once" {
		if c.Scoring.Denoise == "pool" {
			v.add("scoring.denoise",
				"is \"pool\", which needs scoring.release \"rounds\" or \"compact\": one release has no others "+
					"to be pooled with")
		}
		return
	}
	const reason = "needs scoring.release \"once\": the public texts that are relevant to the clients must be known " +
		"before the first round"
	if c.Trainer.Select == "distance" {
		v.add("trainer.select",
			"is \"distance\", which needs scoring.release \"once\": %q releases no distance of the samples "+
				"from the clients", c.Scoring.Release)
	}
	if c.Scoring.Form > 0 && slices.Contains(tuning, c.Method) {
		v.add("scoring.form", "is %v, which needs scoring.release \"once\": scores of a round's samples are cosines",
			c.Scoring.Form)
	}
	if c.Generate.Quote == "relevant" {
		v.add("generate.quote", "is \"relevant\", which %s", reason)
	}
	if c.Synthetic.PublicTexts > 0 {
		v.add("synthetic.public_texts", "is %d, which %s", c.Synthetic.PublicTexts, reason)
	}
	if c.Synthetic.Kept < 1 {
		v.add("synthetic.kept", "is %v, which %s", c.Synthetic.Kept, reason)
	}
	if c.Warmup.Steps > 0 {
		v.add("warmup.steps", "is %d, which %s", c.Warmup.Steps, reason)
	}
}

// evolution checks the section private_evolution.
func (v *validator) evolution(e PrivateEvolution) {
	v.oneOf("private_evolution.variant", e.Variant, evolutionVariants)
	v.count("private_evolution.population", e.Population, 1, 1<<24)
	v.count("private_evolution.variations", e.Variations, 1, 1000)
	v.oneOf("private_evolution.variation", e.Variation, variationKinds)
	v.count("private_evolution.votes", e.Votes, 1, 64)
	v.oneOf("private_evolution.select", e.Select, survivals)
	v.between("private_evolution.threshold", e.Threshold, 0, 1e9)
	v.oneOf("private_evolution.product", e.Product, evolved)
}

type validator struct {
	problems []Problem
	choices  map[string][]string // filled by oneOf, where not nil
}

// Choices returns the values of a key that has a list of them, else nil.
func Choices(key string) []string {
	v := &validator{choices: map[string][]string{}}
	Default().check(v)
	return v.choices[key]
}

func (v *validator) add(key, format string, args ...any) {
	v.problems = append(v.problems, Problem{Key: key, Text: quote.Sprintf(format, args...)})
}

// utf8 refuses texts that the files of a run cannot hold, such as a path in another encoding.
func (v *validator) utf8(c Config) {
	for _, k := range keys {
		if value, _ := c.Get(k.Name); !utf8.ValidString(fmt.Sprint(value)) {
			v.add(k.Name, "is %q, must be UTF-8", value)
		}
	}
}

func (v *validator) text(key, value, meaning string) {
	if strings.TrimSpace(value) == "" {
		v.add(key, "is not set: it is required, %s", meaning)
	}
}

func (v *validator) oneOf(key, value string, allowed []string) {
	if v.choices != nil {
		v.choices[key] = allowed
	}
	if !slices.Contains(allowed, value) {
		v.add(key, "is %q, available: %s", value, strings.Join(allowed, ", "))
	}
}

func (v *validator) count(key string, value, low, high int) {
	if value < low || value > high {
		v.add(key, "is %d, must be %d to %d", value, low, high)
	}
}

// above wants low < value <= high, which NaN is not.
func (v *validator) above(key string, value, low, high float64) {
	if !(value > low && value <= high) {
		v.add(key, "is %v, must be above %v and at most %v", value, low, high)
	}
}

// between wants low <= value <= high, which NaN is not.
func (v *validator) between(key string, value, low, high float64) {
	if !(value >= low && value <= high) {
		v.add(key, "is %v, must be %v to %v", value, low, high)
	}
}

// kinds checks what a search for kinds of text needs.
func (v *validator) kinds(c Config) {
	g := c.Generate
	if g.Chat && (g.TemplateHeader == "" || g.TemplateItem == "") {
		v.add("generate.chat", "is true, which needs a template_header, the user's turn, and a template_item")
	}
	if g.Kinds == "" {
		return
	}
	refuse := func(reason string) { v.add("generate.kinds", "is %q, which needs %s", g.Kinds, reason) }
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
