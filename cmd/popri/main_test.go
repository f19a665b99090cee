package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tokenizer"
	"popri/testkit/testfile"
)

// popri runs one command line in this process.
func popri(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	a := &app{out: &out, err: &err}
	code = a.execute(t.Context(), args)
	return code, out.String(), err.String()
}

// decode reads the one object that --json prints.
func decode(t *testing.T, stdout string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("not one JSON object: %v\n%s", err, stdout)
	}
	return v
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	return testfile.Write(t, filepath.Join(dir, name), content)
}

// tinyModel writes a random model with a tokenizer into a new folder.
func tinyModel(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	tok, err := tokenizer.TrainBPE(func(yield func(string) bool) {
		_ = yield("the cat and the hat and the bat") && yield("then that other thing")
	}, tokenizer.TrainOptions{VocabSize: 270, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tok.Save(filepath.Join(dir, tokenizer.FileName)); err != nil {
		t.Fatal(err)
	}
	eos, _ := tok.EOS()
	random := rand.New(rand.NewPCG(1, 2))
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: tok.VocabSize(), Context: 32, Hidden: 16, Layers: 1, Heads: 2,
		Inner: 32, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, EOS: []int32{eos}, ScaleAttn: true}, lm.Options{},
		random.NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if err := m.Save(dir, safetensors.F32); err != nil {
		t.Fatal(err)
	}
	return dir
}

// verbs returns every command below cmd but cobra's own, each followed by the commands below it.
func verbs(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range cmd.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			all = append(all, c)
			all = append(all, verbs(c)...)
		}
	}
	return all
}

func TestEveryVerbExplainsItself(t *testing.T) {
	root := (&app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root()
	all := verbs(root)
	if len(all) == 0 {
		t.Fatal("no verbs")
	}
	for _, c := range all {
		path := c.CommandPath()
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: no short text or no example", path)
		}
		for _, flag := range []string{"json", "quiet", "threads"} {
			if c.InheritedFlags().Lookup(flag) == nil {
				t.Errorf("%s: no --%s", path, flag)
			}
		}
		// What the examples show must be accepted.
		for _, line := range strings.Split(c.Example, "\n") {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "popri" {
				t.Errorf("%s: the example %q is no command line of popri", path, line)
				continue
			}
			found, rest, err := (&app{}).root().Find(words[1:])
			if err != nil {
				t.Errorf("%s: %q: %v", path, line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", path, line, err)
			} else if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", path, line, err)
			}
		}
		args := append(strings.Fields(path)[1:], "--help")
		if code, out, errs := popri(t, args...); code != 0 || !strings.Contains(out, "Examples:") ||
			!strings.Contains(out, "--json") || errs != "" {
			t.Errorf("%s --help: exit code %d, %q, standard error %q", path, code, out, errs)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, errs := popri(t, "completion", shell); code != 0 || len(out) < 100 || errs != "" {
			t.Errorf("%s: exit code %d, %d bytes, %s", shell, code, len(out), errs)
		}
	}
	for want, args := range map[string][]string{
		"demo-model demo-rounds demo-smollm2 ":                       {"run", "--preset", "demo-"},
		"dpo.loss= dpo.label_smoothing= ":                            {"run", "--set", "dpo.l"},
		"dpo.loss=ipo dpo.loss=ipo_sum ":                             {"ablate", "--over", "dpo.loss=ip"},
		"model.path=embedded model.path=smollm2 model.path=trained ": {"demo", "--set", "model.path="},
		"scoring.encoder=minilm ":                                    {"doctor", "--set", "scoring.encoder=m"},
		"smollm2 ":                                                   {"generate", "--model", "s"},
		"congress ":                                                  {"demo", "--world", "c"},
		"cpu cuda ":                                                  {"doctor", "--device", "c"},
		"":                                                           {"bench", "generate", "--model", "s"}, // a folder
	} {
		code, out, _ := popri(t, append([]string{"__complete"}, args...)...)
		list, _, found := strings.Cut(out, ":")
		if got := strings.ReplaceAll(list, "\n", " "); code != 0 || !found || got != want {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, got, want)
		}
	}
}

// TestMistakes: what the user did wrong gives code 2, names the value met, and prints nothing on standard output.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"nonsense", []string{"nonsense"}},
		{"--nonsense", []string{"--nonsense"}},
		{"version extra", []string{"extra"}},
		{"version --threads -1", []string{"--threads", "-1"}},
		{"version --threads many", []string{"--threads", "many"}},
		{"account", []string{"epsilon", "sigma"}},
		{"account nonsense", []string{"nonsense", "epsilon"}},
		{"aggregate nonsense", []string{"nonsense"}},
		{"aggregate keygen leader", []string{"out"}},
		{"bench nonsense", []string{"nonsense"}},
		{"demo --rows tpyo", []string{"tpyo", "untrained"}},
		{"account epsilon", []string{"noise-multiplier", "rounds", "delta"}},
		{"account epsilon --noise-multiplier -1 --rounds 20 --delta 1e-5", []string{"noise multiplier", "-1"}},
		{"account epsilon --noise-multiplier NaN --rounds 20 --delta 1e-5", []string{"noise multiplier", "NaN"}},
		{"account epsilon --noise-multiplier 1 --rounds -20 --delta 1e-5", []string{"-20"}},
		{"account epsilon --noise-multiplier 1 --rounds 20 --delta 1", []string{"delta is 1"}},
		{"account epsilon --noise-multiplier 1 --rounds 20 --delta 1e-5 --sampling-rate 1.5",
			[]string{"--sampling-rate is 1.5"}},
		{"account epsilon --noise-multiplier 1 --rounds 20 --delta 1e-5 --sampling-rate 0",
			[]string{"--sampling-rate is 0"}},
		{"account sigma --epsilon -7 --delta 1e-5 --rounds 3", []string{"epsilon is -7"}},
		{"account rounds --epsilon 7 --delta 0 --noise-multiplier 1", []string{"delta is 0"}},
		{"account delta --epsilon x --rounds 3 --noise-multiplier 1", []string{"--epsilon", `"x"`}},
		{"data", []string{"info", "check", "import"}},
		{"data info", []string{"1 arg"}},
		{"data info nowhere.parquet", []string{"nowhere.parquet", "no such file"}},
		{"data check", []string{"1 arg"}},
		{"data import --out x.parquet", []string{"no file is named"}},
		{"data import a", []string{"--out"}},
		{"data import train=nowhere.json --out x.parquet", []string{"nowhere.json", "no such file"}},
		{"generate", []string{"--prompts"}},
		{"generate --prompts p --samples 0 --temperature -1 --top-p 0 --top-k -1 --max-new-tokens 0 --out x.csv",
			[]string{"--samples is 0", "--temperature is -1", "--top-p is 0", "--top-k is -1", "--max-new-tokens is 0",
				"x.csv"}},
		{"generate --prompts p --temperature NaN", []string{"--temperature is NaN"}},
		{"generate --prompts p --dtype int8", []string{"int8", "float32"}},
		{"generate --prompts p --cache much", []string{"--cache", "much", "512MiB"}},
		{"generate --prompts p --model nowhere", []string{"nowhere"}},
	} {
		code, out, errs := popri(t, strings.Fields(c.args)...)
		if code != exitUsage || out != "" && !strings.HasPrefix(c.args, "data check") {
			t.Errorf("%s: exit code %d, standard output %q", c.args, code, out)
		}
		if parts := strings.SplitN(errs, ": ", 4); parts[0] != "popri" || len(parts) > 2 && parts[1] == parts[2] {
			t.Errorf("%s: standard error is %q", c.args, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q lacks %q", c.args, errs, want)
			}
		}
	}
}

func TestAccountForms(t *testing.T) {
	code, out, errs := popri(t,
		strings.Fields("account epsilon --noise-multiplier 19.3 --rounds 20 --sampling-rate 1 --delta 3e-6 --json")...)
	v := decode(t, out)
	if code != 0 || errs != "" || v["relation"] != "zero_out" {
		t.Fatalf("exit code %d, %v, %s", code, v, errs)
	}
	exact, rdp := v["exact"].(float64), v["rdp"].(float64)
	if !(0 < exact && exact <= rdp) {
		t.Errorf("exact %g, rdp %g: a bound is below the exact value", exact, rdp)
	}
	// The four verbs agree: the noise for an ε spends it, and allows the rounds it was made for.
	_, out, _ = popri(t, strings.Fields("account sigma --epsilon 7 --delta 1e-4 --rounds 3 --json")...)
	sigma, _ := json.Marshal(decode(t, out)["exact"])
	given := "--noise-multiplier " + string(sigma)
	_, out, _ = popri(t, strings.Fields("account rounds --json --epsilon 7 --delta 1e-4 "+given)...)
	if n := decode(t, out)["exact"].(float64); n != 3 {
		t.Errorf("%g rounds, want 3", n)
	}
	_, out, _ = popri(t, strings.Fields("account delta --json --epsilon 7 --rounds 3 "+given)...)
	if d := decode(t, out)["exact"].(float64); !(d <= 1e-4 && d > 0.9999e-4) {
		t.Errorf("δ is %g, want 1e-4", d)
	}
	_, out, _ = popri(t, strings.Fields("account epsilon --json --delta 1e-4 --rounds 3 --noise-multiplier 0")...)
	if e := decode(t, out)["exact"]; e != "inf" {
		t.Errorf("ε without noise is %v", e)
	}
	// Sampling helps where an accountant covers it; one that does not is left out or the question is refused.
	code, out, errs = popri(t,
		strings.Fields("account epsilon --noise-multiplier 19.3 --rounds 20 --sampling-rate 0.1 --delta 3e-6 --json")...)
	switch code {
	case 0:
		v := decode(t, out)
		if _, ok := v["exact"]; ok {
			t.Errorf("the exact formula does not hold under sampling: %v", v)
		}
		if e, ok := v["rdp"].(float64); ok && e >= rdp {
			t.Errorf("ε is %g with a tenth of the clients, %g with all", e, rdp)
		}
	case exitUsage:
		if !strings.Contains(errs, "--sampling-rate 0.1") {
			t.Error(errs)
		}
	default:
		t.Errorf("exit code %d, %s", code, errs)
	}
	if _, out, _ := popri(t,
		strings.Fields("account sigma --epsilon 7 --delta 1e-4 --rounds 3")...); !strings.Contains(out, "relation") ||
		!strings.Contains(out, "sensitivity") || !strings.Contains(out, "unit") {
		t.Errorf("the table lacks relation, unit or sensitivity:\n%s", out)
	}
}

func TestRoundedUp(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 1.0470491: "1.04705", 1.0470411: "1.04705", 1e-4: "0.0001",
		9.999999: "10", 3.000001e-6: "3.00001e-06", 123456.7: "123457"} {
		if got := roundedUp(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestData(t *testing.T) {
	dir := t.TempDir()
	train := write(t, dir, "train.json", `{"a": ["one two", "three"], "b": ["four"]}`)
	eval := write(t, dir, "eval.json", `{"c": ["five six seven"]}`)
	file := filepath.Join(dir, "clients.parquet")
	if code, _, errs := popri(t, "data", "import", "train="+train, "test="+eval, "--out", file, "--unit",
		"a letter"); code != 0 {
		t.Fatal(code, errs)
	}
	code, out, errs := popri(t, "data", "info", file, "--json")
	v := decode(t, out)
	if code != 0 || errs != "" || v["clients"] != 3.0 || v["rows"] != 4.0 || v["words"] != 7.0 ||
		v["unit"] != "a letter" {
		t.Errorf("exit code %d, %v, %s", code, v, errs)
	}
	if splits := v["splits"].(map[string]any); splits["test"].(map[string]any)["rows"] != 1.0 ||
		splits["train"].(map[string]any)["clients"] != 2.0 {
		t.Errorf("splits are %v", splits)
	}
	if code, out, _ := popri(t, "data", "info", file); code != 0 || !strings.Contains(out, "privacy unit") ||
		!strings.Contains(out, "a letter") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out, errs := popri(t, "data", "check", file); code != 0 || !strings.Contains(out, "no bad rows") ||
		strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "no validation clients") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	// A file that is no client file keeps what was written before.
	before := testfile.Read(t, file)
	twice := write(t, dir, "twice.json", `{"a": ["x"]}`)
	code, _, errs = popri(t, "data", "import", "train="+train, "validation="+twice, "--out", file)
	if after, err := os.ReadFile(file); code != exitUsage ||
		!strings.Contains(errs, "key 0, text 0 of "+train+" puts the client in") || err != nil ||
		!bytes.Equal(before, after) {
		t.Errorf("exit code %d, %s: the file changed", code, errs)
	}
	cut := write(t, dir, "cut.parquet", string(before[:len(before)/2]))
	code, out, errs = popri(t, "data", "check", cut, "--json")
	if v := decode(t, out); code != exitUsage || v["ok"] != false ||
		!strings.Contains(v["error"].(string), "cut off") || !strings.Contains(errs, cut) {
		t.Errorf("exit code %d, %v, %s", code, v, errs)
	}
}

func TestVersion(t *testing.T) {
	code, out, errs := popri(t, "version", "--json")
	v := decode(t, out)
	if code != 0 || errs != "" || v["go"] == "" || v["libtorch"] == "" || v["version"] == "" {
		t.Errorf("exit code %d, %v, %s", code, v, errs)
	}
}

// The program's own help begins with what to type first, and has every verb under a heading.
func TestRootHelp(t *testing.T) {
	code, out, errs := popri(t, "--help")
	if code != 0 {
		t.Fatal(errs)
	}
	start, rest, found := strings.Cut(out, "Usage:")
	if !found {
		t.Fatal(out)
	}
	first := 0
	for line := range strings.Lines(start) {
		if strings.HasPrefix(line, "  popri ") {
			first++
			command, _, _ := strings.Cut(strings.TrimSpace(line), "   ") // what it does stands behind
			if err := checkCommand(command); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
	if first != 3 || !strings.Contains(start, "Start here:") {
		t.Errorf("%d commands to start with, want 3:\n%s", first, start)
	}
	_, more, _ := strings.Cut(rest, "Additional Commands:")
	if n := strings.Count(more[:strings.Index(more, "\n\n")], "\n  "); n != 2 { // completion and help
		t.Errorf("%d verbs have no heading:\n%s", n-2, more)
	}
}
