package trl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"popri/configs"
	"popri/dpo"
	"popri/dpo/preference"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/testfile"
)

// job prepares the training of a fresh adapter on six pairs in batches of four, twice.
func job(t *testing.T) *Job {
	t.Helper()
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: 32, Context: 64, Hidden: 16, Layers: 1, Heads: 2, Inner: 32,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, EOS: []int32{31}, ScaleAttn: true},
		lm.Options{Weights: tensor.Float32, Compute: tensor.Float32}, rand.New(rand.NewPCG(1, 1)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	a, err := lora.New(m, lora.Config{Rank: 2, Alpha: 4}, rng.New(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Free)
	c := configs.Default()
	c.DPO.Engine, c.Optimizer.Epochs, c.Optimizer.Batch = configs.TRL, 2, 4
	tuner, err := preference.NewDPO(c, m, a, 4)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(2, 2))
	draw := func(n int) (ids []int32) {
		for range n {
			ids = append(ids, int32(random.IntN(31)))
		}
		return ids
	}
	var pairs []dpo.Pair
	for i := range 6 {
		pairs = append(pairs, dpo.Pair{Prompt: draw(3 + i), Chosen: draw(5), Rejected: draw(2 + i), PromptIndex: i})
	}
	if err := tuner.Reference(t.Context(), pairs); err != nil {
		t.Fatal(err)
	}
	return &Job{Config: c, Fit: preference.NewFit(c, tuner, pairs, nil, "test"), Model: "model",
		Dir: filepath.Join(t.TempDir(), "trl")}
}

// imitate makes a shell script stand for TRL: it hands back the adapter that it was given, with a loss that it claims.
func (j *Job) imitate(steps int, loss, chosen, rejected float64) {
	step := `{"loss":0.69,"num_tokens":100}`
	list := strings.TrimSuffix(strings.Repeat(step+",", steps), ",")
	j.Command = []string{"sh", "-c",
		fmt.Sprintf(`cd "$2" && cp -r start adapter && echo run >> ../runs &&
		echo 'popri-step {"step":1,"loss":0.69}' && echo 'no report' &&
		printf '{"key":"%%s","processes":2,"steps":[%s],"check":{"eval_loss":%g,"eval_logps/chosen":%g,"eval_logps/rejected":%g}}' \
			"$(sed -n 's/^key: //p' job.yaml)" > result.json`, list, loss, chosen, rejected), "sh"}
}

// means are the measurements of the untrained adapter.
func (j *Job) means(t *testing.T) (loss, chosen, rejected float64) {
	t.Helper()
	e, err := j.Fit.Tuner.Evaluate(t.Context(), j.Fit.Pairs)
	if err != nil {
		t.Fatal(err)
	}
	return e.Loss, e.LogpsChosen, e.LogpsRejected
}

func TestJob(t *testing.T) {
	j := job(t)
	loss, chosen, rejected := j.means(t)
	j.imitate(4, loss, chosen, rejected)
	j.Fit.Held = j.Fit.Pairs[:2]
	told := 0
	j.Fit.OnStep = func(m dpo.Metrics, done, total int) {
		if told++; done != 1 || total != 4 || m.Loss != 0.69 {
			t.Errorf("update %d of %d: %+v", done, total, m)
		}
	}
	o, r, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if told != 1 || r.Reused || r.Processes != 2 || len(o.Steps) != 4 || len(o.Evals) != 1 {
		t.Errorf("%d reports, %+v, %+v", told, r, o)
	}
	if last := o.Steps[3]; last.Step != 4 || last.Epoch != 2 || last.Pairs != 2 || o.Steps[2].Pairs != 4 ||
		j.Fit.Tuner.Optimizer.Done.Steps != 4 {
		t.Errorf("the last step is %+v", last)
	}

	// A process that was killed behind the training takes it again, and one with other pairs does not.
	again := job(t)
	again.Dir, again.Command, again.Fit.Held = j.Dir, j.Command, nil
	if _, r, err := again.Run(t.Context()); err != nil || !r.Reused {
		t.Errorf("the finished training is done again: %+v (%v)", r, err)
	}
	other := job(t)
	other.Dir, other.Command = j.Dir, j.Command
	other.Fit.Pairs[0].Reference[0]--
	other.Fit.Tuner.Optimizer.Reset()
	_, _, _ = other.Run(t.Context())
	runs, err := os.ReadFile(filepath.Join(filepath.Dir(j.Dir), "runs"))
	if err != nil || strings.Count(string(runs), "run") != 2 {
		t.Errorf("TRL ran for %q (%v)", runs, err)
	}
}

// The files that TRL reads hold every pair, in popri's order, and numbers that PyYAML takes for numbers.
func TestFiles(t *testing.T) {
	j := job(t)
	s, err := j.settings()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.write(s); err != nil {
		t.Fatal(err)
	}
	b := testfile.Read(t, filepath.Join(j.Dir, settingsFile))
	var back map[string]any
	if err := yaml.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if n := len(back["learning_rates"].([]any)); n != 4 || len(back["order"].([]any)) != 2 {
		t.Errorf("%d learning rates in %s", n, b)
	}
	// PyYAML's form of a number with an exponent has a point and a sign.
	for _, exponent := range regexp.MustCompile(`[0-9.]+e[-+0-9]+`).FindAllString(strings.ReplaceAll(string(b), s.Key,
		""), -1) {
		if !regexp.MustCompile(`^[0-9]+\.[0-9]+e[-+][0-9]+$`).MatchString(exponent) {
			t.Errorf("PyYAML takes %s for a text", exponent)
		}
	}
	if !strings.Contains(string(b), "adam_epsilon: 1.0e-08") ||
		!strings.Contains(string(b), "precompute_ref_log_probs: true") {
		t.Errorf("the settings are %s", b)
	}
	pairs := testfile.ReadLines[pairLine](t, filepath.Join(j.Dir, pairsFile))
	if len(pairs) != len(j.Fit.Pairs) {
		t.Errorf("%d lines for %d pairs", len(pairs), len(j.Fit.Pairs))
	}
	for i, p := range pairs {
		if len(p.Prompt) != 3+i || p.RefChosen != j.Fit.Pairs[i].Reference[0] {
			t.Errorf("line %d: %+v", i+1, p)
		}
	}
}

func TestTRLFailures(t *testing.T) {
	for want, change := range map[string]func(j *Job, loss, chosen, rejected float64){
		"is not the one that TRL measured: the mean loss": func(j *Job, l, c, r float64) { j.imitate(4, l+0.1, c, r) },
		"log-probability of the rejected":                 func(j *Job, l, c, r float64) { j.imitate(4, l, c, r-1) },
		"did 3 updates, 4 are wanted":                     func(j *Job, l, c, r float64) { j.imitate(3, l, c, r) },
		"exit status 3: it is so": func(j *Job, _, _, _ float64) {
			j.Command = []string{"sh", "-c", "echo popri: it is so >&2; exit 3"}
		},
		"exit status 4: Traceback": func(j *Job, _, _, _ float64) {
			j.Command = []string{"sh", "-c", "echo Traceback >&2; exit 4"}
		},
		"left no result": func(j *Job, _, _, _ float64) { j.Command = []string{"true"} },
		"no eval_loss": func(j *Job, _, _, _ float64) {
			j.Command = []string{"sh", "-c",
				`cd "$1" && printf '{"key":"%s"}' "$(sed -n 's/^key: //p' job.yaml)" > result.json`}
		},
		"of another job": func(j *Job, _, _, _ float64) {
			j.Command = []string{"sh", "-c", `echo '{"key":"x"}' > "$1/result.json"`}
		},
	} {
		j := job(t)
		loss, chosen, rejected := j.means(t)
		before := j.Fit.Tuner.StateKey()
		change(j, loss, chosen, rejected)
		_, _, err := j.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if j.Fit.Tuner.StateKey() != before || j.Fit.Tuner.Optimizer.Done.Steps != 0 {
			t.Errorf("%s: the tuner has changed", want)
		}
	}
	j := job(t)
	j.Command = []string{"/nonexistent/python"}
	if _, _, err := j.Run(t.Context()); !fault.IsUser(err) || !strings.Contains(err.Error(), commandVariable) {
		t.Errorf("no such Python: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	j.Command = []string{"sh", "-c", "echo 'popri-step {\"step\":1}'; sleep 600 & wait"}
	j.Fit.OnStep = func(dpo.Metrics, int, int) { cancel() }
	if _, _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled training: %v", err)
	}
}
