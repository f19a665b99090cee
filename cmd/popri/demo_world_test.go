package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets/clients"
	"popri/internal/modelcache"
	"popri/internal/rundir"
	"popri/run/assembly"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
	"popri/trainer/pretrain"
)

// without drops the settings of the given keys from a demo's command line.
func without(args []string, keys ...string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--set" && i+1 < len(args) {
			key, _, _ := strings.Cut(args[i+1], "=")
			drop := false
			for _, k := range keys {
				drop = drop || k == key
			}
			if drop {
				i++
				continue
			}
		}
		out = append(out, args[i])
	}
	return out
}

// TestDemoOnOwnFiles: any file of clients with any public file: the models are trained on the public text first, a
// second run takes them from the cache, and the settings that name the same files are the same run.
func TestDemoOnOwnFiles(t *testing.T) {
	w := testworld.Make(t)
	cache := t.TempDir()
	t.Setenv("POPRI_CACHE", cache)
	// One file as it is, one as plain lines.
	more := filepath.Join(t.TempDir(), "more.txt")
	testfile.Write(t, more, "a red boat turns the river at noon.\nthe old house holds some bread for a while.\n")
	base := without(worldDemo(t, w), "data.private", "data.public", "model.path", "downstream.model",
		"eval.reference_private", "data.max_tokens")
	base = append(base, "--set", "synthetic.texts=16", "--set", "trainer.rounds=1")
	dir := filepath.Join(t.TempDir(), "own")
	args := append(base[:len(base):len(base)], "--private", w.Private, "--public", w.Public, "--public", more)
	code, out, errs := popri(t, append(args, "--out", dir, "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	v := decode(t, out)
	accuracy := v["accuracy"].(map[string]any)
	for _, key := range []string{"public", "public_all", "untuned", "popri"} {
		if _, ok := accuracy[key]; !ok {
			t.Errorf("the table has no %s: %v", key, accuracy)
		}
	}
	if _, ok := accuracy["private"]; ok {
		t.Error("clients whose text nobody declared public have a row ε = ∞")
	}
	distance := v["public_distance"].(map[string]any)
	if auc := number(t, distance, "domain_auc"); !(auc > 0.6 && auc <= 1) { // the clients' endings are others
		t.Errorf("domain AUC %v", auc)
	}
	for _, key := range []string{"frechet", "frechet_test", "wasserstein", "wasserstein_test"} {
		if !(number(t, distance, key) > 0) {
			t.Errorf("%s is %g", key, number(t, distance, key))
		}
	}
	if number(t, distance, "public_texts") != 152 {
		t.Errorf("distance %v", distance)
	}
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)})
	if err != nil {
		t.Fatal(err)
	}
	for role, path := range map[string]string{pretrain.Generator: c.Model.Path, pretrain.Device: c.Downstream.Model} {
		p, ok := pretrain.ReadProvenance(path)
		if !ok || !strings.HasPrefix(path, cache) ||
			!strings.Contains(p.Command, "--public "+w.Public+" --public "+more+" --role "+role) {
			t.Errorf("%s lies in %s: %+v", role, path, p)
		}
	}
	page := testfile.Read(t, filepath.Join(dir, rundir.Report))
	for _, want := range []string{"Distance of public text from the clients", "all public text that the generator saw",
		"own", "of each round&#39;s samples and of public text"} {
		if !bytes.Contains(page, []byte(want)) &&
			!bytes.Contains(page, []byte(strings.ReplaceAll(want, "&#39;", "'"))) {
			t.Errorf("the page lacks %q", want)
		}
	}

	again := filepath.Join(t.TempDir(), "own")
	settings := append(base[:len(base):len(base)], "--set", "data.private="+w.Private, "--set",
		"data.public="+w.Public+","+more, "--set", "model.path=trained", "--set", "downstream.model=trained", "--set",
		"data.long_texts=cut", "--out",
		again, "--json")
	code, out, errs = popri(t, settings...)
	if code != 0 {
		t.Fatal(errs)
	}
	if got := decode(t, out)["accuracy"]; !equalJSON(t, got, v["accuracy"]) {
		t.Errorf("the same by --set: %v, was %v", got, v["accuracy"])
	}
	if models, err := filepath.Glob(filepath.Join(cache, "trained", "*", "model.safetensors")); err != nil ||
		len(models) != 2 {
		t.Errorf("models in the cache: %v, %v", models, err)
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX != nil || errY != nil {
		t.Fatal(errX, errY)
	}
	return bytes.Equal(x, y)
}

// TestSmallModelWithSmolLM2: SmolLM2 as the generator is the small model, too, unless something else names one.
func TestSmallModelWithSmolLM2(t *testing.T) {
	if _, err := assembly.GeneratorDir(modelcache.SmolLM2); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		small, preset string
		set           []string
		want          string
	}{
		{"", "", nil, modelcache.SmolLM2},
		{"trained", "", nil, "trained"},
		{"", "", []string{"downstream.model=embedded"}, "embedded"},
		{"", "demo-smollm2", nil, "trained"},
	} {
		f := worldFlags{name: "speeches", model: modelcache.SmolLM2, small: c.small}
		options, _, err := f.options(c.preset, c.set)
		if err != nil {
			t.Fatal(err)
		}
		got, err := configs.Load(options)
		if err != nil || got.Downstream.Model != c.want {
			t.Errorf("--small %q, preset %q, %v: small model %q (%v), want %q", c.small, c.preset, c.set, got.Downstream.Model, err, c.want)
		}
	}
	t.Setenv("POPRI_DOWNSTREAM_MODEL", "embedded") // as for model.path, the environment comes after --model
	f := worldFlags{name: "speeches", model: modelcache.SmolLM2}
	options, _, err := f.options("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := configs.Load(options); err != nil || got.Downstream.Model != "embedded" {
		t.Errorf("the environment's small model became %q (%v)", got.Downstream.Model, err)
	}
}

// TestDemoModelInAWorld: a generator that is named replaces the one that the world would train; the world's small model stays.
func TestDemoModelInAWorld(t *testing.T) {
	world := configs.World{Name: "world x", Set: []string{"model.path=trained", "downstream.model=trained"}}
	for model, want := range map[string]string{embeddedModel: "trained", "smollm2": "smollm2"} {
		preset := configs.DefaultPreset
		if model != embeddedModel {
			preset += "-" + model
		}
		c, err := configs.Load(configs.LoadOptions{Preset: preset, World: withModel(world, model)})
		if err != nil || c.Model.Path != want || c.Downstream.Model != "trained" {
			t.Errorf("%s: generator %q, small model %q (%v)", model, c.Model.Path, c.Downstream.Model, err)
		}
	}
	if len(world.Set) != 2 {
		t.Errorf("the world became %v", world.Set)
	}
}

// TestDemoWorldMistakes: mistakes about the data of a demo end it before anything is trained or written.
func TestDemoWorldMistakes(t *testing.T) {
	w := testworld.Make(t)
	cache := t.TempDir()
	t.Setenv("POPRI_CACHE", cache)
	nowhere := t.TempDir()
	unchosen := filepath.Join(nowhere, "unchosen.parquet") // no validation clients
	p, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	p.Clients = slices.DeleteFunc(p.Clients, func(c clients.Client) bool { return c.Split == clients.Validation })
	if err := clients.Write(unchosen, p); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--world", "mars"}, "there are godoc"},
		{[]string{"--world", "congress", "--data", nowhere}, "has no congress.parquet"},
		{[]string{"--private", w.Private}, "needs --public"},
		{[]string{"--world", "imdb", "--private", w.Private}, "do not combine"},
		{[]string{"--private", w.Private, "--public", w.Private}, "client"},
		{[]string{"--private", filepath.Join(nowhere, "none.parquet"), "--public", w.Public}, "none.parquet"},
		{[]string{"--private", w.Private, "--public", filepath.Join(nowhere, "none.jsonl")}, "none.jsonl"},
		{[]string{"--private", w.Private, "--public", w.Public, "--set", "data.since=1945"}, "data.since is 1945"},
		{[]string{"--private", w.Private, "--public", w.Public, "--set", "privacy.delta=0.5"}, "delta"},
		{[]string{"--private", unchosen, "--public", w.Public}, "no validation clients"},
	} {
		out := filepath.Join(t.TempDir(), "demo")
		code, _, errs := popri(t, append([]string{"demo", "--quiet", "--out", out}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) || rundir.Exists(out) {
			t.Errorf("%v: exit code %d, %s", c.args, code, errs)
		}
	}
	if entries, err := os.ReadDir(cache); err != nil || len(entries) > 0 {
		t.Errorf("trained before the mistake was found: %v, %v", entries, err)
	}
}

// TestPretrainOnAnyText: a tokenizer and a model from a file of public text; a file of clients is refused.
func TestPretrainOnAnyText(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "small")
	sizes := []string{"--layers", "1", "--width", "16", "--heads", "2", "--context", "32", "--batch", "4", "--steps",
		"20", "--warmup", "2", "--vocab", "300", "--dtype", "float32", "--quiet"}
	code, out, errs := popri(t,
		append([]string{"pretrain", "--public", w.Public, "--role", "device", "--out", dir, "--json"}, sizes...)...)
	if code != 0 {
		t.Fatal(errs)
	}
	v := decode(t, out)
	if !(number(t, v, "held_out_loss") > 0) || number(t, v, "steps") != 20 || v["corpus"] != w.Public ||
		!strings.HasPrefix(v["command"].(string), "popri pretrain --public "+w.Public+" --role device --layers 1") {
		t.Errorf("%v", v)
	}
	prompts := testfile.Write(t, filepath.Join(t.TempDir(), "prompts.jsonl"), "{\"prompt\": \"the cat\"}\n")
	if code, _, errs := popri(t, "generate", "--model", dir, "--prompts", prompts, "--samples", "2", "--max-new-tokens",
		"5"); code != 0 {
		t.Errorf("the model cannot write: %s", errs)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--public", w.Private}, "client_id"},
		{[]string{"--public", "none.txt"}, "none.txt"},
		{[]string{"--public", w.Public, "--goroot", "/go"}, "--goroot"},
		{[]string{"--role", "reader"}, "reader"},
	} {
		code, _, errs := popri(t,
			append(append([]string{"pretrain", "--out", filepath.Join(t.TempDir(), "x")}, c.args...), sizes...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, errs)
		}
	}
}
