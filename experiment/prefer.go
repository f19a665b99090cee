package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"popri/configs"
	"popri/dpo"
	"popri/internal/atomicfile"
	"popri/internal/rng"
	"popri/lm"
	"popri/lora"
	"popri/models"
	"popri/tensor"
	"popri/tokenizer"
	"popri/trainer"
)

// Files of a preference training beside the adapter's.
const (
	StepsFile    = "steps.jsonl"   // a line of metrics for each step, under TRL's names
	SettingsFile = "settings.yaml" // the configuration
)

// PreferOptions say what to train on which pairs.
type PreferOptions struct {
	Config   configs.Config // model.path, lora, dpo and seed are what counts
	Pairs    string         // JSON lines of TRL's form, or a run's pairs.parquet
	Out      string         // folder of the adapter, in PEFT's format
	Step     func(dpo.Metrics, int)
	Prepared func(pairs, steps int) // called when everything is read
}

// Preferred is what a preference training gave.
type Preferred struct {
	Pairs   int         `json:"pairs"`
	Steps   int         `json:"steps"`
	Seconds float64     `json:"train_runtime"` // reference log-probabilities and steps, without loading
	Loss    float64     `json:"train_loss"`    // mean over the steps
	Last    dpo.Metrics `json:"last"`
	Out     string      `json:"out"`
}

// Prefer trains an adapter on preference pairs, against the model without it, and writes it to a folder that holds none.
func Prefer(ctx context.Context, o PreferOptions) (*Preferred, error) {
	c := o.Config
	if err := c.Validate(); err != nil {
		return nil, err
	}
	tensor.SetThreads(c.Model.Threads)
	if exists(filepath.Join(o.Out, "adapter_config.json")) {
		return nil, mistake("%s holds an adapter already: name another folder", o.Out)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, mistake("the adapter's folder cannot be made: %w", err)
	}
	dir, err := ModelDir(c.Model.Path, models.Generator)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, mistake("%w", err)
	}
	m, err := lm.Load(dir, lm.Options{Weights: tensor.Float32, Compute: ComputeType(c.Model.DType)})
	if err != nil {
		return nil, mistake("%w", err)
	}
	defer m.Free()
	if err := m.CheckVocabulary(tok.VocabSize()); err != nil {
		return nil, mistake("%s: %w", dir, err)
	}
	pairs, err := readPairs(o.Pairs, tok, m.Config.Context)
	if err != nil {
		return nil, mistake("%w", err)
	}
	adapter, err := lora.New(m, lora.Config{Rank: c.LoRA.Rank, Alpha: c.LoRA.Alpha, RSLoRA: c.LoRA.RSLoRA, Targets: c.LoRA.Targets}, rng.New(c.Seed, "lora"))
	if err != nil {
		return nil, mistake("%w", err)
	}
	defer adapter.Free()
	perEpoch := (len(pairs) + c.DPO.BatchPairs - 1) / c.DPO.BatchPairs
	total := c.DPO.Epochs * perEpoch
	t, err := trainer.NewDPO(c, m, adapter, total)
	if err != nil {
		return nil, err
	}
	if o.Prepared != nil {
		o.Prepared(len(pairs), total)
	}
	begun := time.Now()
	if err := t.Reference(ctx, pairs); err != nil {
		return nil, err
	}
	out := &Preferred{Pairs: len(pairs), Steps: total, Out: o.Out}
	var lines bytes.Buffer
	for epoch := range c.DPO.Epochs {
		order := rng.New(c.Seed, "dpo", strconv.Itoa(epoch)).Perm(len(pairs))
		for at := 0; at < len(order); at += c.DPO.BatchPairs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var batch []dpo.Pair
			for _, i := range order[at:min(at+c.DPO.BatchPairs, len(order))] {
				batch = append(batch, pairs[i])
			}
			step, err := t.Step(batch)
			if err != nil {
				return nil, err
			}
			out.Loss += step.Loss / float64(total)
			out.Last = step
			line, err := json.Marshal(step)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", step.Step, err)
			}
			lines.Write(append(line, '\n'))
			if o.Step != nil {
				o.Step(step, total)
			}
		}
	}
	out.Seconds = time.Since(begun).Seconds()
	for name, content := range map[string][]byte{StepsFile: lines.Bytes(), SettingsFile: c.YAML()} {
		if err := atomicfile.WriteBytes(filepath.Join(o.Out, name), content); err != nil {
			return nil, err
		}
	}
	return out, adapter.Save(o.Out)
}

func readPairs(path string, tok *tokenizer.Tokenizer, context int) ([]dpo.Pair, error) {
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		pairs, err := dpo.ReadPairs(path)
		if err == nil && len(pairs) == 0 {
			err = fmt.Errorf("%s holds no pairs", path)
		}
		return pairs, err
	}
	return dpo.ReadJSONL(path, tok, context)
}
