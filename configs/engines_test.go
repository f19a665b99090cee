package configs

import (
	"strings"
	"testing"
)

func TestEngines(t *testing.T) {
	for _, k := range []struct {
		set  string // assignments, separated by spaces
		want string // in the error; "" for none
	}{
		{"generate.engine=vllm:https://host:8000", ""},
		{"generate.engine=vllm:http://127.0.0.1:8000/v", ""},
		{"generate.engine=vllm", "generate.engine"},
		{"generate.engine=", "generate.engine"},
		{"generate.engine=https://host", "generate.engine"},
		{"generate.engine=vllm:host:8000", "generate.engine"},
		{"generate.engine=vllm:ftp://host", "generate.engine"},
		{"generate.engine=vllm:https://user:word@host", "generate.engine"},
		{"generate.engine=vllm:https://host/?a=b", "generate.engine"},
		{"generate.weights=int8", ""},
		{"generate.weights=int4", "generate.weights"},
		{"generate.weights=int8 generate.engine=vllm:https://host", "generate.engine"},
		{"generate.weights=int8 model.weights=compute", "model.weights"},
		{"generate.weights=int8 model.dtype=float32", "model.dtype"},
		{"dpo.engine=trl", ""},
		{"dpo.engine=accelerate", "dpo.engine"},
		{"dpo.engine=trl dpo.loss=ipo_sum", "dpo.loss"},
		{"dpo.engine=trl dpo.loss=cdpo", "dpo.loss"},
		{"dpo.engine=trl dpo.loss=aot", "dpo.loss"},
		{"dpo.engine=trl dpo.best=pairs", "dpo.best"},
	} {
		c, err := Load(LoadOptions{Set: strings.Fields(k.set)})
		if (err == nil) != (k.want == "") || err != nil && !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v, want %q", k.set, err, k.want)
		}
		if c != nil && c.Generate.Engine != localEngine && "vllm:"+c.Generate.Server() != c.Generate.Engine {
			t.Errorf("%s: the server is %s", k.set, c.Generate.Server())
		}
	}
	if url := Default().Generate.Server(); url != "" {
		t.Errorf("the default has the server %s", url)
	}
}
