package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestConfigMistakes: every mistake of a configuration is named at once, with its place, and no run is begun.
func TestConfigMistakes(t *testing.T) {
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, "earlier", "config.yaml"), "method: popri\n")
	config := write(t, dir, "bad.yaml", "dpo:\n  beta: -1\n  rejected_rnak: 5\ntrainer:\n  rounds: many\n")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--config", config}, []string{"3 problems", "dpo.beta", "-1", "rejected_rnak", "dpo.rejected_rank",
			"trainer.rounds", "many", "bad.yaml:5"}},
		{[]string{"--set", "dpo.beta=-1", "--set", "seed=x", "--set", "nonsense=1"},
			[]string{"3 problems", "dpo.beta", "seed", "nonsense"}},
		{[]string{"--preset", "nonsense"}, []string{"nonsense", "demo"}},
		{[]string{"--config", filepath.Join(dir, "missing.yaml")}, []string{"missing.yaml", "no such file"}},
		{[]string{"--at-clients", filepath.Join(dir, "earlier")}, []string{"earlier has no small model: popri eval --run "}},
	} {
		out := filepath.Join(dir, "run")
		code, stdout, errs := popri(t, append([]string{"run", "--out", out}, c.args...)...)
		if code != exitUsage || stdout != "" {
			t.Errorf("%v: exit code %d, standard output %q", c.args, code, stdout)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%v: %q lacks %q", c.args, errs, want)
			}
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%v: a run's folder was made", c.args)
		}
	}
}

// TestNoGPU: a GPU that is not there is the user's mistake, wherever it was asked for.
func TestNoGPU(t *testing.T) {
	if tensor.CUDALibrary() && tensor.CUDADevices() > 0 {
		t.Skip("there is a GPU")
	}
	out := filepath.Join(t.TempDir(), "run")
	for _, args := range [][]string{
		{"--device", "cuda", "doctor"},
		{"run", "--device", "cuda", "--out", out},
		{"run", "--set", "model.device=cuda", "--out", out},
		{"dpo", "--set", "model.device=cuda", "--pairs", "pairs.jsonl", "--out", out},
	} {
		code, _, errs := popri(t, args...)
		if code != exitUsage || !strings.Contains(errs, `"cuda"`) || !strings.Contains(errs, "device") {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%v: a folder was made", args)
		}
	}
	for want, args := range map[string][]string{"no-such": {"doctor", "--model", "no-such"},
		"dpo.bta": {"doctor", "--model", "embedded", "--set", "dpo.bta=1"}} {
		if code, _, errs := popri(t, args...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, %s", args, code, errs)
		}
	}
	if code, stdout, errs := popri(t, "--device", "cpu", "doctor", "--model", "embedded", "--set",
		"model.weights=compute", "--set", "generate.batch_tokens=1024"); code != 0 ||
		!strings.Contains(stdout, "5,853,184 parameters") ||
		!strings.Contains(stdout, "→ optimizer.gradient_checkpointing=true") {
		t.Errorf("a memory plan: exit code %d, %s%s", code, stdout, errs)
	}
	if code, stdout, errs := popri(t, "--device", "cpu", "doctor"); code == exitUsage ||
		!strings.Contains(stdout, "device") {
		t.Errorf("doctor on the CPU: exit code %d, %q, %q", code, stdout, errs)
	}
}

// TestRunBadData: a run with a damaged client file, public text or model ends before it begins.
func TestRunBadData(t *testing.T) {
	dir, model := t.TempDir(), tinyModel(t)
	good := filepath.Join(dir, "clients.parquet")
	clients := write(t, dir, "clients.json", `{"a": ["one two three"], "b": ["four five six"], "c": ["seven eight"]}`)
	if code, _, errs := popri(t, "data", "import", "train="+clients, "--out", good); code != 0 {
		t.Fatal(errs)
	}
	b := testfile.Read(t, good)
	cut := write(t, dir, "cut.parquet", string(b[:len(b)/2]))
	public := write(t, dir, "public.txt", "the cat\nthe hat\n")
	blank := write(t, dir, "blank.jsonl", `{"text": " "}`)
	broken := tinyModel(t)
	rewrite(t, filepath.Join(broken, safetensors.ModelFile),
		func(_ string, values []float32) { values[0] = float32(math.Inf(1)) })
	for _, c := range []struct {
		private, public, model string
		want                   []string
	}{
		{good, public, broken, []string{broken, "Inf"}},
		{cut, public, model, []string{cut, "cut off"}},
		{filepath.Join(dir, "missing.parquet"), public, model, []string{"missing.parquet", "no such file"}},
		{good, blank, model, []string{blank, "line 1"}},
		{good, filepath.Join(dir, "missing.txt"), model, []string{"missing.txt", "no such file"}},
		{good, public, filepath.Join(dir, "missing"), []string{filepath.Join(dir, "missing")}},
	} {
		code, stdout, errs := popri(t, "run", "--out", filepath.Join(dir, "run"), "--set", "data.private="+c.private,
			"--set", "data.public="+c.public, "--set", "model.path="+c.model, "--set", "downstream.model="+model)
		if code != exitUsage || stdout != "" {
			t.Errorf("%s: exit code %d, standard output %q", c.want[0], code, stdout)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%q lacks %q", errs, want)
			}
		}
	}
}

// TestUnwritableRun: a folder that cannot be made is said to be so.
func TestUnwritableRun(t *testing.T) {
	file := write(t, t.TempDir(), "file", "")
	out := filepath.Join(file, "run")
	if code, stdout, errs := popri(t, "run", "--preset", "demo", "--out", out); code == 0 || stdout != "" ||
		!strings.Contains(errs, file) {
		t.Errorf("exit code %d, %q, %s", code, stdout, errs)
	}
}

// A flag that is a setting of the configuration says how to set it.
func TestFlagsThatAreSettings(t *testing.T) {
	for want, args := range map[string][]string{
		"--set dpo.beta=…":                {"run", "--beta", "0.1", "--out", "x"},
		"--set optimizer.learning_rate=…": {"ablate", "--learning-rate", "1"},
		"unknown flag: --nothing\n":       {"run", "--nothing"},
		"did you mean --preset?":          {"run", "--presets", "demo"},
		"did you mean --allow-embedded?":  {"demo", "--alow-embeded"},
		"did you mean --json?":            {"version", "--jsn"},
		"mean --set lora.alpha=…?":        {"run", "--lora-alpa", "8"},
		"did you mean --set dpo.loss=…?":  {"ablate", "--losss", "ipo"},
		"did you mean dpo.rejected_rank?": {"ablate", "--over", "dpo.rejected_rnk=2,5"},
		"did you mean dpo.beta?":          {"run", "--set", "dpo.bta=1"},
	} {
		code, _, errs := popri(t, args...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s, want %q", args, code, errs, want)
		}
	}
	if code, out, _ := popri(t, "--version"); code != 0 || !strings.HasPrefix(out, "popri ") {
		t.Errorf("--version: exit code %d, %q", code, out)
	}
}

// fullDisk refuses every byte.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A disk without room ends an import as a failure: the user's files are in order.
func TestImportWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "in.jsonl", strings.Repeat(`{"client_id": "a", "text": "`+strings.Repeat("word ", 1000)+`"}`+
		"\n", 20))
	cmd := limitedTo(t, "-f 4", "data", "import", file, "--client-per-text", "--out", filepath.Join(dir, "out.parquet"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(out), syscall.EFBIG.Error()) {
		t.Errorf("%v: %s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// A result that cannot be written is no success, also where lines are printed one by one.
func TestResultsThatCannotBeWritten(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	c.Trainer.Rounds = 1
	file := testfile.Write(t, filepath.Join(t.TempDir(), "c.yaml"), c.YAML())
	for _, args := range [][]string{{"run", "--config", file, "--out", filepath.Join(t.TempDir(), "run")},
		{"account", "table3", "--json"},
		{"version"}} {
		var errs bytes.Buffer
		a := &app{out: fullDisk{}, err: &errs}
		if code := a.execute(t.Context(), args); code != exitFailed ||
			!strings.Contains(errs.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%v: exit code %d, %s", args, code, errs.String())
		}
	}
}

// TestLimitOfMemory: a shell's limit is named before the work, not only by the trace of Go's runtime.
func TestLimitOfMemory(t *testing.T) {
	out, _ := limitedTo(t, "-v 3000000", "data", "check", filepath.Join(t.TempDir(), "none.parquet")).CombinedOutput()
	if !strings.Contains(string(out), "this shell allows 2.9 GiB of memory (ulimit -v), and popri needs at least 3.") {
		t.Errorf("%s", out)
	}
}
