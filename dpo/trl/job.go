package trl

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"popri/configs"
	"popri/dpo"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rows"
	"popri/trainer"
)

//go:embed train.py
var script []byte

// Files of a job's folder.
const (
	scriptFile   = "train.py"
	settingsFile = "job.yaml"
	pairsFile    = "pairs.jsonl"
	startDir     = "start"
	adapterDir   = "adapter"
	resultFile   = "result.json"
	logFile      = "log.txt" // what the process wrote to standard error
)

// checkPairs is the number of pairs whose loss is computed twice at the end.
const checkPairs = 64

// Job is the training of one round. Its folder holds what TRL reads and writes; a finished one is used again.
type Job struct {
	Config configs.Config // model, dpo and seed are used
	Fit    *dpo.Fit       // tuner, pairs with reference log-probabilities, held-out pairs, epochs, order
	Model  string         // folder of the base model
	Dir    string         // the job's folder
	// Command starts Python; the script and its folder follow. Empty takes the command in the variable commandVariable,
	// or the installed Python.
	Command []string
}

// Result is what TRL said.
type Result struct {
	Versions   map[string]string `json:"versions"` // of TRL and what it stands on
	Processes  int               `json:"processes"`
	MicroPairs int               `json:"micro_pairs"` // computed at once in each process
	Loss       float64           `json:"check_loss"`  // of the pairs that are measured at the end, by TRL
	OwnLoss    float64           `json:"own_loss"`    // the same, by popri
	Reused     bool              `json:"reused"`      // the job was finished by an earlier process
}

// stored is result.json.
type stored struct {
	Key        string `json:"key"`
	Processes  int    `json:"processes"`
	MicroPairs int    `json:"micro_pairs"`
	Check      struct {
		Loss          *float64 `json:"eval_loss"`
		LogpsChosen   *float64 `json:"eval_logps/chosen"`
		LogpsRejected *float64 `json:"eval_logps/rejected"`
	} `json:"check"`
	Steps    []dpo.Metrics     `json:"steps"`
	Versions map[string]string `json:"versions"`
}

// pairLine is a line of pairs.jsonl: TRL's columns of tokens and reference log-probabilities.
type pairLine struct {
	Prompt      []int32 `json:"prompt_ids"`
	Chosen      []int32 `json:"chosen_ids"`
	Rejected    []int32 `json:"rejected_ids"`
	RefChosen   float64 `json:"ref_chosen_logps"`
	RefRejected float64 `json:"ref_rejected_logps"`
}

// Run trains, or takes a finished job, and leaves the trained adapter in the tuner with its schedule advanced. Held-out
// pairs are measured at the end. An interrupted job begins again.
func (j *Job) Run(ctx context.Context) (*dpo.Outcome, *Result, error) {
	s, err := j.settings()
	if err != nil {
		return nil, nil, err
	}
	found, err := j.result(s.Key)
	reused := err == nil
	if !reused {
		if err := j.write(s); err != nil {
			return nil, nil, err
		}
		if err := j.start(ctx); err != nil {
			return nil, nil, err
		}
		if found, err = j.result(s.Key); err != nil {
			return nil, nil, err
		}
	}
	if len(found.Steps) != len(s.LearningRates) {
		return nil, nil, fmt.Errorf("trl: %s: TRL did %d updates, %d are wanted", j.Dir, len(found.Steps), len(s.LearningRates))
	}
	if err := j.Fit.Tuner.Adapter.Read(filepath.Join(j.Dir, adapterDir), j.Fit.Tuner.Model); err != nil {
		return nil, nil, fmt.Errorf("trl: the adapter that TRL trained: %w", err)
	}
	own, err := j.check(ctx, found)
	if err != nil {
		return nil, nil, err
	}
	o, err := j.outcome(ctx, found.Steps)
	return o, &Result{found.Versions, found.Processes, found.MicroPairs, *found.Check.Loss, own, reused}, err
}

// settings makes job.yaml. Its key depends on everything that the training begins with.
func (j *Job) settings() (settings, error) {
	t := j.Fit.Tuner
	model, err := filepath.Abs(j.Model)
	if err != nil {
		return settings{}, fmt.Errorf("trl: %w", err)
	}
	s := settings{Model: model, DType: t.Model.Compute.String(), BatchPairs: min(t.BatchPairs, len(j.Fit.Pairs)),
		MicroPairs: t.MicroPairs, CheckPairs: min(checkPairs, len(j.Fit.Pairs)), DPO: dpoConfig(j.Config, t.Model.Compute)}
	s.LearningRates = numeric.Map(t.Upcoming(j.Fit.Total()), func(rate float64) number { return number(rate) })
	s.Order = numeric.Tabulate(j.Fit.Epochs, j.Fit.Order)
	b, err := yaml.Marshal(s)
	if err != nil {
		return s, fmt.Errorf("trl: %w", err)
	}
	pairs, err := t.Key(j.Fit.Pairs)
	if err != nil {
		return s, err
	}
	h := sha256.New()
	for _, part := range [][]byte{b, script, []byte(t.StateKey()), []byte(pairs)} {
		fmt.Fprintf(h, "%d\x00%s", len(part), part)
	}
	for _, p := range j.Fit.Pairs {
		fmt.Fprintf(h, "%x\x00", p.Reference)
	}
	s.Key = hex.EncodeToString(h.Sum(nil))
	return s, nil
}

// write makes the folder again.
func (j *Job) write(s settings) error {
	if err := os.RemoveAll(j.Dir); err != nil {
		return fmt.Errorf("trl: %w", err)
	}
	if err := os.MkdirAll(j.Dir, 0o755); err != nil {
		return fmt.Errorf("trl: %w", err)
	}
	if err := j.Fit.Tuner.Adapter.Save(filepath.Join(j.Dir, startDir)); err != nil {
		return err
	}
	lines := make([]pairLine, len(j.Fit.Pairs))
	for i, p := range j.Fit.Pairs {
		if !p.HasReference {
			return fmt.Errorf("trl: pair %d has no reference log-probabilities", i)
		}
		lines[i] = pairLine{p.Prompt, p.Chosen, p.Rejected, p.Reference[0], p.Reference[1]}
	}
	if err := rows.WriteLines(filepath.Join(j.Dir, pairsFile), lines); err != nil {
		return err
	}
	b, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Errorf("trl: %w", err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(j.Dir, settingsFile), b); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(j.Dir, scriptFile), script)
}

// result reads result.json, which must be of the job with the key.
func (j *Job) result(key string) (stored, error) {
	path := filepath.Join(j.Dir, resultFile)
	var r stored
	if err := atomicfile.ReadJSON(path, &r); err != nil {
		return r, fmt.Errorf("trl: the training left no result that can be read: %w", err)
	}
	if r.Key != key {
		return r, fmt.Errorf("trl: %s is of another job: its key is %.16q, want %.16q", path, r.Key, key)
	}
	if r.Check.Loss == nil || r.Check.LogpsChosen == nil || r.Check.LogpsRejected == nil {
		return r, fmt.Errorf("trl: %s has no eval_loss or no eval_logps", path)
	}
	return r, nil
}

// Tolerances of the check in float32, and in bfloat16, in which two programs round differently.
const (
	lossTolerance, lossTolerance16 = 1e-3, 0.1
	nats, nats16                   = 1e-3, 0.05 // of a token's mean log-probability
)

// check compares TRL's loss and log-probabilities of the first pairs under the adapter with popri's, and returns
// popri's loss.
func (j *Job) check(ctx context.Context, r stored) (float64, error) {
	t := j.Fit.Tuner
	pairs := j.Fit.Pairs[:min(checkPairs, len(j.Fit.Pairs))]
	e, err := t.Evaluate(ctx, pairs)
	if err != nil {
		return 0, fmt.Errorf("trl: measuring the adapter that TRL trained: %w", err)
	}
	chosen, rejected := 0.0, 0.0
	for _, p := range pairs {
		chosen += float64(len(p.Chosen)) / float64(len(pairs))
		rejected += float64(len(p.Rejected)) / float64(len(pairs))
	}
	loss, perToken := lossTolerance, nats
	if t.Model.Compute.Size() < 4 {
		loss, perToken = lossTolerance16, nats16
	}
	for _, c := range []struct {
		what            string
		theirs, ours    float64
		tolerance       float64
		differsByDesign bool
	}{
		{"loss", *r.Check.Loss, e.Loss, loss * (1 + math.Abs(e.Loss)), j.Config.DPO.Loss == "sft" ||
			j.Config.DPO.SFTWeight > 0},
		{"log-probability of the chosen completions", *r.Check.LogpsChosen, e.LogpsChosen, perToken * chosen, false},
		{"log-probability of the rejected completions", *r.Check.LogpsRejected, e.LogpsRejected, perToken * rejected,
			false},
	} {
		// TRL averages the likelihood of the chosen completions by pair, popri by token.
		if !c.differsByDesign && !(math.Abs(c.theirs-c.ours) <= c.tolerance) {
			return 0, fmt.Errorf("trl: %s: the adapter that came back is not the one that TRL measured: the mean %s of %d pairs "+
				"is %g by TRL and %g by popri, which may differ by %.2g", j.Dir, c.what, len(pairs), c.theirs, c.ours, c.tolerance)
		}
	}
	return e.Loss, nil
}

// outcome gives TRL's steps popri's numbering and measures the held-out pairs.
func (j *Job) outcome(ctx context.Context, steps []dpo.Metrics) (*dpo.Outcome, error) {
	t := j.Fit.Tuner
	each := (len(j.Fit.Pairs) + t.BatchPairs - 1) / t.BatchPairs
	for i := range steps {
		steps[i].Epoch = float64(i+1) / float64(each)
		steps[i].Pairs = min(t.BatchPairs, len(j.Fit.Pairs)-i%each*t.BatchPairs)
	}
	o := &dpo.Outcome{Progress: trainer.Begun(), Steps: t.Advance(steps)}
	o.Updates = len(steps)
	if len(j.Fit.Held) == 0 {
		return o, nil
	}
	e, err := t.Evaluate(ctx, j.Fit.Held)
	if err != nil {
		return nil, err
	}
	e.Step, e.Epoch, e.Best = len(steps), float64(j.Fit.Epochs), true
	o.Evals, o.Measured, o.Best, o.Value = []dpo.Evaluation{e}, 1, 0, e.Loss
	if j.Fit.OnEval != nil {
		j.Fit.OnEval(e)
	}
	return o, nil
}
