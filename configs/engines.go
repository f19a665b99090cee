package configs

import (
	"net/url"
	"slices"
	"strings"

	"popri/configs/losses"
)

// localEngine is the value of generate.engine and dpo.engine for this program.
const localEngine = "local"

// Server returns the URL of generate.engine's vLLM server, "" if there is none.
func (g Generate) Server() string {
	if address, ok := strings.CutPrefix(g.Engine, "vllm:"); ok {
		return address
	}
	return ""
}

// engine checks generate.engine.
func (v *Report) engine(c Config) {
	g := c.Generate
	if g.Engine == localEngine {
		return
	}
	u, err := url.Parse(g.Server())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		v.Add("generate.engine",
			"is %q, must be \"local\" or vllm: and the URL of a server, such as vllm:https://host:8000", g.Engine)
	}
}

// trl checks what TRL's trainer must leave to popri, or cannot do.
func (v *Report) trl(c Config) {
	const where = "where dpo.engine is \"trl\""
	d := c.DPO
	if l, known := losses.Find(d.Loss); known && !l.TRL {
		v.Add("dpo.loss", "is %q, available %s: %s", d.Loss, where,
			strings.Join(losses.Names(func(l losses.Loss) bool { return l.TRL }), ", "))
	}
	if d.Best != "last" && slices.Contains(Choices("dpo.best"), d.Best) {
		v.Add("dpo.best", "is %q, must be \"last\" %s", d.Best, where)
	}
}
