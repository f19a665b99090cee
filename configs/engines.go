package configs

import (
	"net/url"
	"slices"
	"strings"
)

// Local is the value of generate.engine and dpo.engine for this program.
const Local = "local"

// Server returns the URL of generate.engine's vLLM server, "" if there is none.
func (g Generate) Server() string {
	address, _ := strings.CutPrefix(g.Engine, "vllm:")
	if address == g.Engine {
		return ""
	}
	return address
}

// engine checks generate.engine.
func (v *validator) engine(c Config) {
	g := c.Generate
	if g.Engine == Local {
		return
	}
	u, err := url.Parse(g.Server())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		v.add("generate.engine",
			"is %q, must be \"local\" or vllm: and the URL of a server, such as vllm:https://host:8000", g.Engine)
	}
	if c.LoRA.DoRA {
		v.add("lora.dora", "is true, must be false where generate.engine is %q: vLLM has no DoRA", g.Engine)
	}
	v.public(c, "generate.engine", g.Engine)
}

// trl checks what TRL's trainer must leave to popri, or cannot do.
func (v *validator) trl(c Config) {
	const where = "where dpo.engine is \"trl\""
	d := c.DPO
	if slices.Contains(losses, d.Loss) && !slices.Contains(lossesOfTRL, d.Loss) {
		v.add("dpo.loss", "is %q, available %s: %s", d.Loss, where, strings.Join(lossesOfTRL, ", "))
	}
	if d.Best != "last" && slices.Contains(bests, d.Best) {
		v.add("dpo.best", "is %q, must be \"last\" %s", d.Best, where)
	}
	if d.EvalSteps > 0 {
		v.add("dpo.eval_steps", "is %d, must be 0 %s: held-out pairs are measured after the last step", d.EvalSteps,
			where)
	}
	if d.Patience > 0 {
		v.add("dpo.patience", "is %d, must be 0 %s", d.Patience, where)
	}
	if d.MicroTokens > 0 {
		v.add("dpo.micro_tokens", "is %d, must be 0 %s: TRL counts pairs (dpo.micro_pairs)", d.MicroTokens, where)
	}
	if d.RefModelSyncSteps > 0 {
		v.add("dpo.ref_model_sync_steps", "is %d, must be 0 %s: TRL does not do it with adapters", d.RefModelSyncSteps,
			where)
	}
	if c.LoRA.Dropout > 0 {
		v.add("lora.dropout", "is %v, must be 0 %s: TRL turns dropout off, or on in the model, too", c.LoRA.Dropout,
			where)
	}
	if slices.Contains(d.EngineCommand, "") {
		v.add("dpo.engine_command", "holds an empty word")
	}
	v.public(c, "dpo.engine", d.Engine)
}

// public refuses an engine where the model or its prompts may hold private text.
func (v *validator) public(c Config, key, engine string) {
	if c.Privacy.UnsafeCeiling {
		v.add(key,
			"is %q, must be \"local\" where privacy.unsafe_ceiling is true: the adapters have learnt from private "+
				"text, which goes to no engine", engine)
	}
}
