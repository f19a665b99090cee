package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/dpo"
	"popri/dpo/preference"
	"popri/run/standalone"
	"popri/testkit/testfile"
)

func TestDPO(t *testing.T) {
	model, dir := tinyModel(t), t.TempDir()
	var lines strings.Builder
	for i := range 12 {
		fmt.Fprintf(&lines, "{\"prompt\": \"the %d\", \"chosen\": \" cat\", \"rejected\": \" hat\"}\n", i)
	}
	pairs, out := write(t, dir, "pairs.jsonl", lines.String()), filepath.Join(dir, "adapter")
	command := func(out string, more ...string) []string {
		return append([]string{"dpo", "--pairs", pairs, "--model", model, "--out", out, "--set", "optimizer.epochs=10",
			"--set", "optimizer.batch=5", "--set", "optimizer.learning_rate=1e-2",
			"--set", "model.dtype=float32"}, more...)
	}
	code, stdout, errs := popri(t, command(out, "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	var got standalone.Result
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Pairs != 12 || got.Steps != 30 || got.Out != out || got.Last.Step != 30 || got.Last.Accuracy != 1 ||
		!(got.Last.Loss < 0.66) || !(got.Loss > got.Last.Loss) {
		t.Errorf("%+v", got)
	}
	b := testfile.Read(t, filepath.Join(out, preference.StepsFile))
	var steps []dpo.Metrics
	mean := 0.0
	for line := range bytes.Lines(b) {
		var m dpo.Metrics
		if err := json.Unmarshal(line, &m); err != nil || !bytes.Contains(line, []byte(`"rewards/margins"`)) {
			t.Fatalf("%v: %s", err, line)
		}
		steps = append(steps, m)
		mean += m.Loss / 30
	}
	if len(steps) != 30 || steps[29] != got.Last || fmt.Sprintf("%.9g", mean) != fmt.Sprintf("%.9g", got.Loss) ||
		fmt.Sprintf("%.4f", steps[0].Loss) != "0.6931" {
		t.Errorf("%d steps with the mean loss %g, the first %+v", len(steps), mean, steps[0])
	}

	// The same again gives the same bytes; a folder in use is left alone.
	second := filepath.Join(dir, "again")
	if code, stdout, errs := popri(t, command(second)...); code != 0 ||
		!strings.Contains(stdout, "rewards/accuracies") {
		t.Fatal(code, stdout, errs)
	}
	for _, name := range []string{"adapter_model.safetensors", "adapter_config.json", preference.StepsFile} {
		x, errX := os.ReadFile(filepath.Join(out, name))
		y, errY := os.ReadFile(filepath.Join(second, name))
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Errorf("%s differs (%v, %v)", name, errX, errY)
		}
	}
	// What was trained is preferred: the adapter is of use to generate.
	prompts := write(t, dir, "prompts.jsonl", `{"prompt": "the 3"}`)
	if code, _, errs := popri(t, "generate", "--model", model, "--adapter", out, "--prompts", prompts, "--temperature",
		"0", "--max-new-tokens", "4", "--quiet"); code != 0 {
		t.Error(errs)
	}

	// Held-out pairs are measured on, from a file or as a share.
	held := testfile.Write(t, filepath.Join(dir, "held.jsonl"), testfile.Read(t, pairs))
	for i, more := range [][]string{{"--eval-pairs", held, "--set", "dpo.best=pairs"},
		{"--set", "dpo.eval_share=0.25"}} {
		code, stdout, errs := popri(t, command(filepath.Join(dir, fmt.Sprint("held", i)),
			append(more, "--json", "--set", "dpo.micro_pairs=2")...)...)
		var got standalone.Result
		if code != 0 || json.Unmarshal([]byte(stdout), &got) != nil || got.Eval == nil || got.Eval.Pairs != got.Held ||
			got.Held < 3 || got.Eval.Accuracy != 1 || !strings.Contains(errs, "held-out loss") {
			t.Errorf("%v: exit code %d, %s, %s", more, code, stdout, errs)
		}
	}

	bad := write(t, dir, "bad.jsonl", `{"prompt": "the", "chosen": " cat"}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{command(out), out},
		{[]string{"dpo", "--pairs", pairs}, "--out"},
		{[]string{"dpo", "--pairs", bad, "--model", model, "--out", filepath.Join(dir, "x")}, "line 1"},
		{[]string{"dpo", "--pairs", filepath.Join(dir, "none.parquet"), "--model", model, "--out",
			filepath.Join(dir, "x")}, "none.parquet"},
		{[]string{"dpo", "--pairs", pairs, "--model", filepath.Join(dir, "none"), "--out", filepath.Join(dir, "x")},
			"none"},
		{command(filepath.Join(dir, "x"), "--set", "dpo.beta=0"), "dpo.beta"},
		{command(filepath.Join(dir, "x"), "--set", "dpo.best=pairs"), "dpo.eval_share"},
		{command(filepath.Join(dir, "x"), "--eval-pairs", filepath.Join(dir, "none.jsonl")), "none.jsonl"},
		{command(filepath.Join(dir, "x"), "--eval-pairs", pairs), "must be others"},
		{command(filepath.Join(dir, "x"), "--resume"), "only --out"},
		{[]string{"dpo", "--resume"}, "--out"},
		{[]string{"dpo", "--resume", "--out", filepath.Join(dir, "x")}, "no training to resume"},
	} {
		if code, stdout, errs := popri(t, c.args...); code != exitUsage || stdout != "" ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, %q, %s", c.args, code, stdout, errs)
		}
		if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
			t.Errorf("%q: the folder of a training that failed before it began is left", c.args)
		}
	}
	code, again, errs := popri(t, "dpo", "--resume", "--out", out, "--json")
	var shown standalone.Result
	if code != 0 || json.Unmarshal([]byte(again), &shown) != nil || shown.Last != got.Last || shown.Steps != 30 ||
		shown.Out != out || !strings.Contains(errs, "is done; nothing was computed") {
		t.Errorf("a training that is done: exit code %d, %s, %s", code, again, errs)
	}
	// A folder that was there before stays, whatever is in it.
	mine := testfile.Folder(t, filepath.Join(dir, "mine"))
	if code, _, _ := popri(t, "dpo", "--pairs", bad, "--model", model, "--out", mine); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("the user's folder was removed: %v", err)
	}
}

// TestDPOForms: the forms of TRL's data sets, with the number of pairs that were too long.
func TestDPOForms(t *testing.T) {
	model, dir := tinyModel(t), t.TempDir()
	implicit := write(t, dir, "implicit.jsonl", "{\"chosen\": \"the cat\", \"rejected\": \"the hat\"}\n"+
		"{\"chosen\": \"a cat in the hat\", \"rejected\": \"a cat in the hat and the cat\"}\n"+
		"{\"chosen\": \"the cat and the hat and the cat and the hat a\", \"rejected\": \"the cat and the hat and the "+
		"cat and the hat b\"}\n")
	beside := write(t, dir, "beside.jsonl",
		`{"prompt": "the", "chosen": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "cat"}], `+
			`"rejected": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "hat"}], "score_chosen": 2}`)
	inside := write(t, dir, "inside.jsonl", `{"prompt": "the", "chosen": "the cat", "rejected": "the hat"}`)
	run := func(pairs, out string, more ...string) (int, standalone.Result, string) {
		code, stdout, errs := popri(t,
			append([]string{"dpo", "--pairs", pairs, "--model", model, "--out", filepath.Join(dir, out), "--json",
				"--set", "optimizer.epochs=1"}, more...)...)
		var r standalone.Result
		if code == 0 {
			if err := json.Unmarshal([]byte(stdout), &r); err != nil {
				t.Fatal(err)
			}
		}
		return code, r, errs
	}
	if code, r, errs := run(implicit, "a", "--set", "dpo.max_length=12"); code != 0 || r.Pairs != 2 ||
		r.Truncated != 1 || r.Dropped != 1 || !strings.Contains(errs, "longer than dpo.max_length: 1 pairs were cut") {
		t.Errorf("exit code %d, %+v, %s", code, r, errs)
	}
	for want, args := range map[string][]string{
		"no chat template":            {beside},
		"begin with the prompt":       {inside},
		"at most the model's context": {implicit, "--set", "dpo.max_length=100000"},
	} {
		if code, _, errs := run(args[0], "c", args[1:]...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, want %q: %s", code, want, errs)
		}
	}
	write(t, model, "chat_template.jinja",
		"{% for m in messages %}{{ m.role + ' ' + m.content + ' ' }}{% endfor %}{% if add_generation_prompt "+
			"%}assistant {% endif %}")
	if code, r, errs := run(beside, "d"); code != 0 || r.Pairs != 1 {
		t.Errorf("exit code %d, %+v, %s", code, r, errs)
	}
}
