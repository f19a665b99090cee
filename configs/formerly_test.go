package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// A run's config.yaml of the version that had all of these keys says what it said.
func TestEarlierConfiguration(t *testing.T) {
	const file = "testdata/earlier/demo.yaml"
	c, err := Load(LoadOptions{File: file})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]any
	if err := yaml.Unmarshal(content, &sections); err != nil {
		t.Fatal(err)
	}
	delete(sections, "provenance")
	old := map[string]string{} // as in a run's inputs.json
	for section, values := range sections {
		if keys, ok := values.(map[string]any); ok {
			for key, value := range keys {
				old[section+"."+key] = fmt.Sprint(value)
			}
		} else {
			old[section] = fmt.Sprint(values)
		}
	}
	later := []string{"optimizer.carry_moments", "optimizer.carry_schedule"} // keys of versions in between
	for name := range formerly {
		if _, ok := old[name]; !ok && !slices.Contains(later, name) {
			t.Errorf("%s lacks %s", file, name)
		}
	}
	present := c.Present(old)
	// Keys that the earlier version did not have.
	newer := []string{"generate.kinds", "generate.weights", "generate.chat", "trainer.patience", "trainer.max_hours",
		"scoring.form", "dpo.f_divergence", "dpo.ld_alpha", "dpo.simpo_gamma", "dpo.max_length",
		"dpo.truncation_mode", "lora.dropout", "lora.dora", "dpo.ref_model_sync_steps",
		"dpo.ref_model_mixup_alpha", "dpo.use_weighting", "aggregate.least", "aggregate.minutes", "aggregate.available",
		"aggregate.delay", "aggregate.proof", "private_evolution.masked_model", "private_evolution.product",
		"wasp.generators", "wasp.item",
		"wasp.words", "wasp.attributes", "wasp.votes_from", "wasp.votes", "wasp.shown", "wasp.contrast", "wasp.weights",
		"fedavg.learning_rate", "fedavg.local_epochs", "fedavg.batch", "fedavg.clip_norm",
		"fedavg.server_learning_rate", "fedavg.momentum",
		"hot_pate.texts", "hot_pate.teachers", "hot_pate.examples", "hot_pate.ensemble", "hot_pate.coordinated",
		"hot_pate.on_failure", "hot_pate.cache_gib",
		"genetic_eda.population", "genetic_eda.children", "genetic_eda.parents", "genetic_eda.domain",
		"genetic_eda.selection", "genetic_eda.decoder",
		"genetic_eda.written", "genetic_eda.perplexity", "genetic_eda.keep"}
	for _, k := range Keys() {
		want, _ := c.Get(k.Name)
		if slices.Contains(newer, k.Name) {
			continue
		}
		if present[k.Name] != fmt.Sprint(want) {
			t.Errorf("%s is %q in inputs.json, %v in config.yaml", k.Name, present[k.Name], want)
		}
		delete(present, k.Name)
	}
	if len(present) > 0 {
		t.Errorf("keys that nobody knows: %v", present)
	}
	old["downstream.learning_rates"] = "[0.1 0.2]"
	if present := c.Present(old); present["downstream.learning_rates"] != "[0.0005 0.1 0.2]" {
		t.Errorf("learning rates are %s", present["downstream.learning_rates"])
	}
	old["dpo.adam_eps"] = "0.1"
	if present := c.Present(old); present["dpo.adam_eps"] != "0.1" {
		t.Error("another constant than the program's is overlooked")
	}
}

func TestEarlierNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	for _, c := range []struct {
		file, env, set string // the variable has the value 7
		want           string // a key and its value, or an error
	}{
		{file: "dpo: {schedule: linear}", want: "optimizer.schedule=linear"},
		{env: "POPRI_DPO_MAX_GRAD_NORM", want: "optimizer.max_grad_norm=7"},
		{set: "dpo.carry_schedule=false", want: "optimizer.carry=false"},
		{set: "dpo.carry_optimizer=false optimizer.carry=false", want: "optimizer.carry=false"},
		{set: "optimizer.carry_moments=false",
			want: "optimizer.carry_moments: is false, but the key is gone: the value is true"},
		{set: "optimizer.carry_moments=false dpo.engine=trl", want: "optimizer.carry=true"},
		{file: "downstream: {schedule: linear, rows: document, weight_decay: 0.01, dropout: 0.1}",
			want: "downstream.recipe=bert"},
		{file: "downstream: {schedule: constant, max_grad_norm: 0, warmup_steps: 0}",
			want: "downstream.recipe=distilgpt2"},
		{set: "downstream.schedule=cosine downstream.rows=document",
			want: `downstream.rows: is the text "document", but the key is gone: the value is line, because`},
		{set: "downstream.schedule=step",
			want: `downstream.schedule: is "step", and the key is gone: downstream.recipe has bert, brief, distilgpt2`},
		{set: "private_evolution.look_ahead=3", want: "method=popri"}, // other methods never read it
		{set: "method=private_evolution private_evolution.look_ahead=3",
			want: "look_ahead: is 3, but the key is gone: the value is 4"},
		{set: "method=private_evolution_sft private_evolution_sft.share=0.2",
			want: "share: is 0.2, but the key is gone: the value is 0.1"},
		{set: "warmup.steps=3 warmup.learning_rate=1e-3",
			want: "warmup.learning_rate: is 0.001, but the key is gone: the value is 0.0005"},
		{set: "generate.template_item=Text public_selection.rows=16000 generate.distinct_examples=true",
			want: "method=popri"},
		{set: "dpo.warmup_ratio=0", want: "optimizer.warmup_steps=5"},
		{set: "dpo.warmup_ratio=0.1 dpo.warmup_steps=0", want: "optimizer.warmup_steps=0.1"},
		{set: "dpo.warmup_steps=0 dpo.warmup_ratio=0.1", want: "optimizer.warmup_steps=0.1"},
		{set: "dpo.warmup_steps=3 dpo.warmup_steps=0", want: "optimizer.warmup_steps=0"},
		{file: "dpo: {warmup_steps: 3}", set: "optimizer.warmup_steps=4", want: "optimizer.warmup_steps=4"},
		{set: "dpo.warmup_steps=3 dpo.warmup_ratio=0.1",
			want: "--set: dpo.warmup_ratio: sets optimizer.warmup_steps, which dpo.warmup_steps sets too"},
		{file: "dpo: {schedule: linear}\noptimizer: {schedule: cosine}",
			want: "c.yaml:2: optimizer.schedule: sets optimizer.schedule, which dpo.schedule sets too"},
		{file: "dpo:\n  schedule: 3", want: "c.yaml:2: dpo.schedule: is 3, must be a text"},
		{file: "dpo: {adam_beta2: 0.999}", set: "dpo.adam_eps=1e-8", want: "dpo.beta=0.1"},
		{file: "dpo:\n  adam_beta2: 0.95",
			want: "c.yaml:2: dpo.adam_beta2: is 0.95, but the key is gone: the value is 0.999, because"},
		{file: "dpo: {batch_pairs: 6}\ngrpo: {batch_prompts: 5}\nwarmup: {batch: 3}", want: "optimizer.batch=6"},
		{file: "dpo: {batch_pairs: 6}\ngrpo: {batch_prompts: 5}", set: "method=grpo", want: "optimizer.batch=5"},
		{file: "dpo: {batch_pairs: 6}", set: "method=private_evolution_sft", want: "optimizer.batch=20"},
		{file: "private_evolution_sft: {epochs: 6}", set: "method=private_evolution_sft", want: "optimizer.epochs=6"},
		{file: "dpo: {batch_pairs: 6}\nwarmup: {batch: 32}", set: "warmup.steps=1", want: "optimizer.batch=6"},
		{file: "warmup: {batch: 6}", set: "warmup.steps=1",
			want: "warmup.batch: is 6, but the key is gone: the value is 32"},
		{file: "dpo: {batch_pairs: 6}\noptimizer: {batch: 3}",
			want: "c.yaml:2: optimizer.batch: sets optimizer.batch, which dpo.batch_pairs sets too"},
		{file: "grpo: {learning_rate: fast}",
			want: `c.yaml:1: grpo.learning_rate: is the text "fast", must be a number`},
		{file: "downstream: {learning_rate: 1e-3}", want: "downstream.learning_rates=[0.001]"},
		{file: "downstream: {learning_rates: [1e-4], learning_rate: 1e-3}",
			want: "downstream.learning_rates=[0.001 0.0001]"},
		{set: "downstream.learning_rate=1e-3 downstream.learning_rates=1e-4,1e-5",
			want: "downstream.learning_rates=[0.001 0.0001 1e-05]"},
		{env: "POPRI_DOWNSTREAM_LEARNING_RATE", want: "downstream.learning_rates=[7]"},
		{file: "downstream: {learning_rate: fast}", want: "c.yaml:1: downstream.learning_rate: holds the text"},
		{file: "downstream: {learning_rates: []}",
			want: "downstream.learning_rates: is [], must hold one rate or more"},
		{env: "POPRI_DPO_ADAM_EPS", want: "POPRI_DPO_ADAM_EPS: dpo.adam_eps: is 7, but the key is gone"},
	} {
		if err := os.WriteFile(file, []byte(c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		if c.env != "" {
			t.Setenv(c.env, "7")
		}
		got, err := Load(LoadOptions{File: file, Env: true, Set: strings.Fields(c.set)})
		os.Unsetenv(c.env)
		key, want, _ := strings.Cut(c.want, "=")
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		} else if v, ok := got.Get(key); !ok || fmt.Sprint(v) != want {
			t.Errorf("%+v: %v", c, v)
		}
	}
	c := Default()
	if err := c.Set("dpo.schedule", "linear"); err != nil || c.Optimizer.Schedule != "linear" {
		t.Error(err)
	}
	if err := c.Set("dpo.adam_eps", "1"); len(problems(t, err)) != 1 {
		t.Error(err)
	}
	if v, ok := c.Get("dpo.schedule"); v != "linear" || !ok {
		t.Errorf("%v, %v", v, ok)
	}
}

// No key of today hides behind an old name.
func TestFormerlyLeadsToKeys(t *testing.T) {
	for name, f := range formerly {
		_, now := lookup(f.now)
		if _, known := lookup(name); known || now != (f.is == nil) || (f.why == "") != (f.is == nil) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
