// Package trying opens the models of a finished run, before and after their training, for people to try.
package trying

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"popri/configs"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tokenizer"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/textgen"
)

// most is the number of prompts that are offered.
const most = 20

// Models are the models of a run. Close releases them.
type Models struct {
	config        configs.Config
	small         string // folder of the small model before its training
	before, after *downstream.Keyboard
	prompts       []sampling.PromptRow
	dir, adapter  string // of the generator; "" where the method has none

	mutex          sync.Mutex
	untuned, tuned *lm.Model // nil before the first use
	tokenizer      *tokenizer.Tokenizer
}

// Open opens the small models of a run, and reads the prompts of its last round.
func Open(run string) (m *Models, err error) {
	if !rundir.Exists(run) {
		return nil, fault.Userf("%s holds no run: there is no %s", run, rundir.Config)
	}
	if !rundir.Has(run, rundir.Small) {
		return nil, fault.Userf("%s has no folder %s: popri eval --run trains the small model", run, rundir.Small)
	}
	m = &Models{}
	if m.config, err = evaluation.RunConfig(run); err != nil {
		return nil, err
	}
	if m.config.Downstream.Task == configs.Classification {
		return nil, fault.Userf("the small model of %s gives labels to texts (downstream.task) and suggests no words", run)
	}
	if err := assembly.SetCompute(m.config); err != nil {
		return nil, err
	}
	if m.small, err = assembly.ModelDir(m.config.Downstream.Model, shipped.Device); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	d, compute := m.config.Downstream, assembly.ComputeType(m.config.Model.DType)
	for dir, to := range map[string]**downstream.Keyboard{m.small: &m.before,
		filepath.Join(run, rundir.Small): &m.after} {
		if *to, err = downstream.OpenKeyboard(dir, d.Training().Rows, d.Length, compute); err != nil {
			return nil, fault.User(err)
		}
	}
	return m, m.readPrompts(run)
}

// readPrompts finds the newest round's prompts and the adapter that wrote the synthetic set.
func (m *Models) readPrompts(run string) error {
	round, err := rounds.Latest(run)
	if err != nil || round == 0 {
		return err
	}
	folder := rundir.Round(run, round)
	adapter, err := rounds.Adapter(run)
	if err != nil || adapter == "" || !rundir.Has(folder, rundir.Prompts) {
		return err
	}
	if m.prompts, err = rows.Read[sampling.PromptRow](filepath.Join(folder, rundir.Prompts)); err != nil {
		return err
	}
	m.prompts = m.prompts[:min(len(m.prompts), most)]
	m.adapter = adapter
	m.dir, err = assembly.GeneratorDir(m.config.Model.Path)
	return err
}

// Close releases the models.
func (m *Models) Close() {
	for _, k := range []*downstream.Keyboard{m.before, m.after} {
		if k != nil {
			k.Free()
		}
	}
	for _, g := range []*lm.Model{m.untuned, m.tuned} {
		if g != nil {
			g.Free()
		}
	}
}

// Suggest implements tryout.Models.
func (m *Models) Suggest(text string) (before, after []string, err error) {
	if before, err = m.before.Suggest(text); err == nil {
		after, err = m.after.Suggest(text)
	}
	return before, after, err
}

// Prompts implements tryout.Models.
func (m *Models) Prompts() []string {
	return numeric.Map(m.prompts, func(p sampling.PromptRow) string { return p.Text })
}

// Names implements tryout.Models.
func (m *Models) Names() (small, generator string) {
	small = fmt.Sprintf("Before: %s. After: the folder %s of the run.", m.small, rundir.Small)
	if m.adapter == "" {
		return small, "The run has no adapters: its method tunes no generator."
	}
	return small, fmt.Sprintf("%s without and with the adapters that wrote the synthetic set; prompts of the last round.", m.dir)
}

// Write implements tryout.Models. Models are loaded for the first text.
func (m *Models) Write(ctx context.Context, prompt int, seed uint64) (before, after string, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := m.load(); err != nil {
		return "", "", err
	}
	g := m.config.Generate
	o := textgen.Options{Samples: 1, SampleOptions: lm.SampleOptions{Temperature: g.Temperature, TopP: g.TopP,
		MaxNewTokens: g.MaxNewTokens, MinNewTokens: g.MinNewTokens, Seed: seed, CacheBytes: 256 << 20}}
	for model, to := range map[*lm.Model]*string{m.untuned: &before, m.tuned: &after} {
		drawn, err := textgen.Draw(ctx, model, m.tokenizer, []textgen.Prompt{{Where: "the prompt",
			IDs: m.prompts[prompt].IDs}}, o)
		if err != nil {
			return "", "", err
		}
		*to = drawn.Samples[0].Text
	}
	return before, after, nil
}

func (m *Models) load() (err error) {
	if m.tuned != nil {
		return nil
	}
	compute := assembly.ComputeType(m.config.Model.DType)
	if m.tokenizer, err = tokenizer.Load(m.dir); err != nil {
		return err
	}
	if m.untuned == nil {
		if m.untuned, err = textgen.LoadModel(m.dir, "", compute); err != nil {
			return err
		}
	}
	m.tuned, err = textgen.LoadModel(m.dir, m.adapter, compute)
	return err
}
