package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

func problems(t *testing.T, err error) []Problem {
	t.Helper()
	invalid, ok := errors.AsType[*Invalid](err)
	if !ok {
		t.Fatalf("error %v is not *Invalid", err)
	}
	return invalid.Problems
}

func TestDefaultIsValidAndNamesEveryKey(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	content, err := presetFiles.ReadFile("presets/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := newLoader().file("demo", content, true)
	for _, k := range core {
		if _, ok := values[k.Name]; !ok {
			t.Errorf("the preset demo does not set %s", k.Name)
		}
	}
}

// Every preset loads; those that need a user's data and models say so and nothing else.
func TestPresets(t *testing.T) {
	needed := map[string]string{"data.private": "a.parquet", "data.public": "b.parquet", "model.path": "m",
		"scoring.encoder": "./e", "downstream.model": "d"}
	for _, name := range Presets() {
		c, err := Load(LoadOptions{Preset: name})
		if name == DefaultPreset {
			if err != nil || !reflect.DeepEqual(*c, Default()) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if name == "demo-rounds" || name == "paper" { // as in the paper, clients are asked in each round
			if err != nil || c.Scoring.Release != "rounds" || c.Synthetic.PublicTexts != 0 ||
				c.Generate.Quote != "public" || c.Data.Private != Default().Data.Private {
				t.Errorf("%s: %v", name, err)
			}
			if s := c.Scoring; (name == "paper") != (s.Normalize == "none" && s.Denoise == "none" &&
				s.Objective == "similarity" && !s.LengthRegression && s.Duplicates == "index" && c.DPO.Best == "fid" &&
				c.Trainer.Select == "fid") {
				t.Errorf("%s is the paper's loop, or is not: %+v", name, s)
			}
			continue
		}
		if model, ok := strings.CutPrefix(name, DefaultPreset+"-"); ok { // the demo with another generator
			if err != nil || c.Model.Path != model && model != "model" || c.Data.Private != Default().Data.Private ||
				!c.Eval.ReferencePrivate {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if slices.Contains([]string{"smoke", "laptop", "gpu", "gpus"}, name) { // for a user's clients, on a machine of that kind
			if err != nil || c.Model.Path == Default().Model.Path || c.Downstream.Model == Default().Downstream.Model {
				t.Errorf("%s: %v", name, err)
			}
			if d := c.Downstream; (name != "smoke") != (d.Adapter == "lora" && slices.Equal(d.LearningRates, []float64{2e-3})) {
				t.Errorf("%s trains its small model with adapter %q and rates %v", name, d.Adapter, d.LearningRates)
			}
			continue
		}
		found := problems(t, err)
		for _, p := range found {
			if needed[p.Key] == "" || !strings.Contains(p.Text, "is required") {
				t.Errorf("%s: %v", name, p)
			}
		}
		if len(found) != len(needed) {
			t.Errorf("%s: %v", name, err)
		}
		var set []string
		for key, value := range needed {
			set = append(set, key+"="+value)
		}
		c, err = Load(LoadOptions{Preset: name, Set: set})
		if err != nil {
			t.Errorf("%s with data and models: %v", name, err)
		} else if c.Scoring.Denoise != "none" || c.Scoring.LengthRegression {
			t.Errorf("%s does what the paper does not: %+v", name, c.Scoring)
		} else if c.Synthetic.Samples != 1 || c.Generate.Prompts != 1800 || c.Data.LongTexts != "cut" ||
			!c.Generate.CutSamples {
			t.Errorf("%s does not do what the paper and its code do: %+v", name, *c)
		} else if published := name == "published-code"; published != (c.Optimizer.Epochs == 1 &&
			c.Optimizer.LearningRate == 8e-7 && c.Scoring.Duplicates == "published") {
			t.Errorf("%s trains otherwise: %+v", name, c.DPO)
		}
	}
	_, err := Load(LoadOptions{Preset: "papers"})
	if p := problems(t, err); len(p) != 1 || !strings.Contains(p[0].String(), "paper-biorxiv") {
		t.Errorf("unknown preset: %v", err)
	}
}

func TestYAMLRoundTrips(t *testing.T) {
	c := Default()
	c.Seed = 1<<64 - 1
	c.Optimizer.WarmupSteps = 1e-300
	c.Privacy.Epsilon = 0.1 + 0.2
	c.Data.Private = "yes: # \"no\"\n1"
	c.Generate.TemplateHeader = "  12"
	c.LoRA.Targets = []string{"null", "1", "c_attn, x"}
	c.Provenance = map[string]string{"Model SHA-256": "00", "libtorch": "2.1.2"}
	path := testfile.Write(t, filepath.Join(t.TempDir(), "config.yaml"), c.YAML())
	got, err := Load(LoadOptions{File: path})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, c) {
		t.Errorf("got  %+v\nwant %+v", *got, c)
	}
	if string(got.YAML()) != string(c.YAML()) {
		t.Error("printed again it differs")
	}
	for _, k := range Keys() {
		if !strings.Contains(string(c.YAML()), k.Name[strings.LastIndexByte(k.Name, '.')+1:]+":") {
			t.Errorf("%s is not printed", k.Name)
		}
	}
}

func TestGoodFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		c, err := Load(LoadOptions{File: file})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if filepath.Base(file) == "own-data.yaml" {
			want := Default()
			want.Seed = 1<<64 - 1
			want.Data.Private, want.Data.Public = "clients.parquet", "c4.jsonl"
			want.Model.Path, want.Model.DType = "/models/gpt2", "bfloat16"
			want.LoRA.Targets = []string{"c_attn", "c_proj"}
			want.DPO.Beta, want.Optimizer.LearningRate, want.Trainer.Rounds, want.Privacy.Epsilon = 1, 1e-6, 20, 0.5
			want.Provenance = map[string]string{"program": "popri v1"}
			want.Eval.ReferencePrivate = false // other data than those it was declared for
			if !reflect.DeepEqual(*c, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", file, *c, want)
			}
		}
	}
}

func TestBadFiles(t *testing.T) {
	testfile.Refused(t, "testdata/bad/*.yaml", func(file string) error {
		_, err := Load(LoadOptions{File: file})
		problems(t, err)
		return err
	})
	if _, err := Load(LoadOptions{File: "testdata/none.yaml"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Load(LoadOptions{File: "testdata"}); len(problems(t, err)) != 1 {
		t.Errorf("directory: %v", err)
	}
}

func TestLaterLayersWin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	testfile.Write(t, file, "seed: 2\noptimizer: {epochs: 2}\ndpo: {beta: 2, loss: sigmoid}\nlora: {targets: [a]}\n")
	t.Setenv("POPRI_DPO_BETA", "3")
	t.Setenv("POPRI_SEED", "3")
	t.Setenv("POPRI_LORA_TARGETS", "b, c")
	t.Setenv("POPRI_SCORING_LENGTH_REGRESSION", "false")
	t.Setenv("POPRI_OPTIMIZER_EPOCHS", "")
	t.Setenv("POPRI_GOLDEN", "elsewhere")
	opt := LoadOptions{File: file, Env: true, Set: []string{"seed=4", "seed=5", "model.path=a=b"}}
	c, err := Load(opt)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Seed, want.DPO.Beta, want.Optimizer.Epochs, want.Model.Path = 5, 3, 2, "a=b"
	want.LoRA.Targets, want.Scoring.LengthRegression = []string{"b", "c"}, false
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got  %+v\nwant %+v", *c, want)
	}
	opt.Env = false
	if c, err = Load(opt); err != nil || c.DPO.Beta != 2 || !c.Scoring.LengthRegression {
		t.Errorf("without the environment: %+v %v", c, err)
	}
}

func TestMistakesInFlagsAndEnvironmentAreNamed(t *testing.T) {
	t.Setenv("POPRI_DPO_BETTA", "3")
	t.Setenv("POPRI_OPTIMIZER_EPOCHS", "two")
	t.Setenv("POPRI_PRIVACY_EPSILON", "-3")
	_, err := Load(LoadOptions{Env: true,
		Set: []string{"dpo.beta", "=1", "trainer.round=3", "dpo.beta=x", "seed=-1", "lora.targets=[a, [b]]", "dpo=1",
			"privacy.delta=2"}})
	for _, want := range []string{
		"POPRI_DPO_BETTA: dpo.betta: unknown key; did you mean dpo.beta?",
		`POPRI_OPTIMIZER_EPOCHS: optimizer.epochs: is the text "two"`,
		"POPRI_PRIVACY_EPSILON: privacy.epsilon: is -3",
		`--set: "dpo.beta" is not of the form key=value`,
		`--set: "=1" is not`,
		"--set: trainer.round: unknown key; did you mean trainer.rounds?",
		`--set: dpo.beta: is the text "x", must be a number`,
		"--set: seed: is -1, which is out of range",
		"--set: lora.targets: holds a list",
		"--set: dpo: is a section",
		"--set: privacy.delta: is 2",
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestSetAndGet(t *testing.T) {
	c := Default()
	for name, text := range map[string]string{"seed": "7", "dpo.beta": "0.5", "model.path": "x", "lora.rank": "3",
		"lora.targets": "a,b"} {
		if err := c.Set(name, text); err != nil {
			t.Error(err)
		}
	}
	if c.Seed != 7 || c.DPO.Beta != 0.5 || c.Model.Path != "x" || c.LoRA.Rank != 3 || len(c.LoRA.Targets) != 2 {
		t.Errorf("%+v", c)
	}
	if v, ok := c.Get("dpo.beta"); !ok || v != 0.5 {
		t.Errorf("dpo.beta is %v %v", v, ok)
	}
	if _, ok := c.Get("dpo"); ok {
		t.Error("a section has a value")
	}
	if err := c.Set("dpo.betas", "1"); len(problems(t, err)) != 1 {
		t.Error(err)
	}
	if err := c.Set("dpo.beta", "big"); len(problems(t, err)) != 1 || c.DPO.Beta != 0.5 {
		t.Error(err)
	}
}

// Values are cut at 80 characters where an error quotes them, whichever key they are of and wherever they stand.
func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("x", 5000)
	file := filepath.Join(t.TempDir(), "c.yaml")
	check := func(what string, err error) {
		t.Helper()
		for line := range strings.Lines(fmt.Sprint(err)) {
			if len(line) > len(file)+500 {
				t.Errorf("%s: a line of %d bytes: %.300s…", what, len(line), line)
			}
		}
	}
	contents := []string{long, long + ": 1", "dpo: {" + long + ": 1}", "a: [" + long,
		"lora: {targets: [\"" + long + "\", \"" + long + "\"]}", "seed: " + strings.Repeat("9", 5000),
		"provenance: " + long}
	for _, k := range Keys() {
		section, name, found := strings.Cut(k.Name, ".")
		if !found {
			section, name = k.Name, long
		}
		contents = append(contents, section+": {"+name+": "+long+"}")
		_, err := Load(LoadOptions{Set: []string{k.Name + "=" + long}})
		check("--set "+k.Name, err)
	}
	for _, content := range contents {
		testfile.Write(t, file, content)
		_, err := Load(LoadOptions{File: file})
		check(fmt.Sprintf("%.40s…", content), err)
	}
	_, err := Load(LoadOptions{Preset: long, Set: []string{long, long + "=1"}})
	check("names", err)
}

// An editor's byte-order mark does not matter.
func TestByteOrderMark(t *testing.T) {
	file := testfile.Write(t, filepath.Join(t.TempDir(), "c.yaml"), "\ufeffseed: 7\n")
	if c, err := Load(LoadOptions{File: file}); err != nil || c.Seed != 7 {
		t.Errorf("%v, %v", c, err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "presets/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			content := testfile.Read(f, file)
			f.Add(content, "dpo.beta=0.3")
		}
	}
	f.Add([]byte("a: &a [*a]"), "")
	f.Add([]byte("dpo: &x {beta: *x}\n<<: *x"), "lora.targets=[a, b]")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte, set string) {
		path := testfile.Write(t, filepath.Join(dir, fmt.Sprint(os.Getpid())), content)
		c, err := Load(LoadOptions{File: path, Set: []string{set}})
		if err != nil {
			problems(t, err)
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("loaded and not valid: %v", err)
		}
		testfile.Write(t, path, c.YAML())
		again, err := Load(LoadOptions{File: path})
		if err != nil {
			t.Fatalf("printed, it does not load: %v\n%s", err, c.YAML())
		}
		if !reflect.DeepEqual(again, c) {
			t.Fatalf("printed and loaded it differs:\n%+v\n%+v", again, c)
		}
	})
}

func ExampleLoad() {
	_, err := Load(LoadOptions{Preset: "demo", Set: []string{"dpo.betta=0.1", "generate.samples=1"}})
	fmt.Println(err)
	// Output:
	// configuration: 2 problems:
	//   --set: dpo.betta: unknown key; did you mean dpo.beta?
	//   --set: generate.samples: is 1, must be 2 to 65536
}

// The declaration that private text may be trained on holds for the data that it was made for.
func TestReferencePrivateIsWithdrawn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		return testfile.Write(t, filepath.Join(dir, name), content)
	}
	own := write("own.yaml", "data: {private: mine.parquet}\n")
	declared := write("declared.yaml", "data: {private: mine.parquet}\neval: {reference_private: true}\n")
	bring := []string{"data.public=p.txt", "model.path=m", "downstream.model=m", "scoring.encoder=./e"}
	for _, c := range []struct {
		preset, file string
		env          map[string]string
		set          []string
		want         bool
	}{
		{want: true},
		{set: []string{"data.private=godoc"}, want: true},
		{set: []string{"data.private=mine.parquet"}},
		{set: []string{"data.private=mine.parquet", "eval.reference_private=true"}, want: true},
		{set: []string{"eval.reference_private=true", "data.private=mine.parquet"}, want: true},
		{file: own},
		{file: declared, want: true},
		{file: declared, set: []string{"data.private=other.parquet"}},
		{file: own, env: map[string]string{"POPRI_EVAL_REFERENCE_PRIVATE": "true"}, want: true},
		{file: own, set: []string{"eval.reference_private=true"}, want: true},
		{env: map[string]string{"POPRI_DATA_PRIVATE": "mine.parquet"}},
		{env: map[string]string{"POPRI_EVAL_REFERENCE_PRIVATE": "true"}, set: []string{"data.private=other.parquet"}},
		{preset: "paper-biorxiv", set: append([]string{"data.private=biorxiv.parquet"}, bring...)},
		{preset: "paper-biorxiv", set: append([]string{"data.private=biorxiv.parquet", "eval.reference_private=true"},
			bring...), want: true},
		{preset: "paper-biorxiv", file: own, set: append([]string{"eval.reference_private=false"}, bring...)},
	} {
		for k, v := range c.env {
			t.Setenv(k, v)
		}
		got, err := Load(LoadOptions{Preset: c.preset, File: c.file, Set: c.set, Env: true})
		for k := range c.env {
			os.Unsetenv(k)
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
		} else if got.Eval.ReferencePrivate != c.want {
			t.Errorf("%+v: eval.reference_private is %v", c, got.Eval.ReferencePrivate)
		}
	}
	c := Default()
	if err := c.Set("data.private", "mine.parquet"); err != nil || c.Eval.ReferencePrivate {
		t.Errorf("after Set: %v, %v", c.Eval.ReferencePrivate, err)
	}
}

func TestFIDDraws(t *testing.T) {
	for _, c := range []struct{ prompts, samples, each int }{{200, 10, 3}, {250, 10, 2}, {1800, 10, 1}, {4, 5, 5}} {
		g := Generate{Prompts: c.prompts, Samples: c.samples}
		if prompts, each := g.FIDDraws(); prompts != c.prompts || each != c.each {
			t.Errorf("%+v: %d prompts of %d samples", c, prompts, each)
		}
	}
}

// trainer.rounds=auto stands for three keys, of which the user may set others.
func TestAutoRounds(t *testing.T) {
	for _, c := range []struct {
		set      []string
		patience int
	}{{[]string{"trainer.rounds=auto"}, 3}, {[]string{"trainer.patience=5", "trainer.rounds=auto"}, 5},
		{[]string{"trainer.rounds=auto", "trainer.patience=5"}, 5}, {[]string{"trainer.rounds=4", "trainer.rounds=auto"}, 3}} {
		got, err := Load(LoadOptions{Set: c.set})
		if err != nil || got.Trainer != (Trainer{Rounds: 32, Select: "distance", Patience: c.patience}) {
			t.Errorf("%v: %+v (%v)", c.set, got, err)
		}
	}
	if _, err := Load(LoadOptions{Set: []string{"trainer.rounds=auto", "scoring.release=rounds"}}); err == nil {
		t.Error("auto without a release that serves all rounds is accepted")
	}
	if _, err := Load(LoadOptions{Set: []string{"trainer.rounds=many"}}); err == nil ||
		!strings.Contains(err.Error(), "trainer.rounds") {
		t.Errorf("many: %v", err)
	}
}

// A slip in a variable for a key without a section is named; the program's other variables are passed over.
func TestEnvironmentWithoutSection(t *testing.T) {
	for _, name := range []string{"CACHE", "DEVICE", "DATA", "KERNELS", "LEAK", "TEXTS", "MODEL"} {
		t.Setenv("POPRI_"+name, "x")
	}
	t.Setenv("POPRI_SEED", "7")
	if c, err := Load(LoadOptions{Env: true}); err != nil || c.Seed != 7 {
		t.Fatalf("%v", err)
	}
	t.Setenv("POPRI_SEEED", "8")
	if _, err := Load(LoadOptions{Env: true}); err == nil || !strings.Contains(err.Error(), "POPRI_SEEED") ||
		!strings.Contains(err.Error(), "did you mean seed?") {
		t.Errorf("POPRI_SEEED: %v", err)
	}
}
