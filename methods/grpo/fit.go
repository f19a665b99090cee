package grpo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"popri/optim"
	"popri/safetensors"
)

// fit trains on the groups of a round for some passes. It writes a checkpoint after each update but the last; an
// interrupted training resumes from it and ends with the same bits.
type fit struct {
	*learner
	groups     []group
	schedule   optim.Schedule
	iterations int
	batch      int                       // groups of an update
	order      func(iteration int) []int // permutation of the groups
	checkpoint string                    // file
	onStep     func(m Metrics, done, total int)
}

// progress is what a training did so far. A checkpoint holds it beside the tensors.
type progress struct {
	Updates int       `json:"updates"` // batches gone through
	Steps   []Metrics `json:"steps"`   // of each batch that had a sample
}

func (f *fit) perPass() int { return (len(f.groups) + f.batch - 1) / f.batch }

// run trains, or resumes.
func (f *fit) run(ctx context.Context) ([]Metrics, error) {
	tokens := 0
	for _, x := range f.samples() {
		tokens += len(x.tokens)
	}
	if tokens == 0 {
		return nil, errors.New("all samples are empty: there is none to train on")
	}
	total := f.iterations * f.perPass()
	p, err := f.begin(ctx, total)
	if err != nil {
		return nil, err
	}
	var order []int
	for p.Updates < total {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		iteration, at := p.Updates/f.perPass(), p.Updates%f.perPass()*f.batch
		if order == nil || at == 0 {
			order = f.order(iteration)
		}
		var groups []group
		for _, i := range order[at:min(at+f.batch, len(order))] {
			groups = append(groups, f.groups[i])
		}
		share := float64(tokens) * float64(len(groups)) / float64(len(f.groups))
		m, ok, err := f.update(groups, share, f.schedule.At(f.done.Position))
		if err != nil {
			return nil, err
		}
		p.Updates++
		if ok {
			m.Epoch = float64(p.Updates) / float64(f.perPass())
			p.Steps = append(p.Steps, m)
		}
		if p.Updates < total { // after the last one, the round's adapters are written
			if err := f.save(p); err != nil {
				return nil, err
			}
		}
		if ok {
			f.onStep(m, p.Updates, total)
		}
	}
	return p.Steps, nil
}

// samples lists the samples of all groups.
func (f *fit) samples() (list []*sample) {
	for _, g := range f.groups {
		list = append(list, g.samples...)
	}
	return list
}

// begin reads the checkpoint. If there is none, it computes the log-probabilities that the updates need and, because only
// the adapters of the round's beginning give those of the old policy, writes the first checkpoint. A single update needs
// none of the old policy: it is the one that learns.
func (f *fit) begin(ctx context.Context, total int) (*progress, error) {
	p := &progress{}
	if _, err := os.Stat(f.checkpoint); err == nil {
		return p, f.resume(p, total)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if total > 1 {
		if err := f.logProbs(ctx, f.groups, f.adapter, func(x *sample, v []float32) { x.old = v }); err != nil {
			return nil, err
		}
	}
	if f.loss.Beta > 0 {
		if err := f.logProbs(ctx, f.groups, nil, func(x *sample, v []float32) { x.reference = v }); err != nil {
			return nil, err
		}
	}
	if total > 1 {
		return p, f.save(p)
	}
	return p, nil
}

// stored names the samples' log-probabilities in a checkpoint.
var stored = map[string]func(*sample) *[]float32{
	"old":       func(x *sample) *[]float32 { return &x.old },
	"reference": func(x *sample) *[]float32 { return &x.reference },
}

func (f *fit) save(p *progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	list := f.opt.State().Tensors("", true)
	for _, name := range []string{"old", "reference"} {
		var values []float32
		for _, x := range f.samples() {
			values = append(values, *stored[name](x)...)
		}
		if len(values) > 0 {
			list = append(list, safetensors.FromFloat32(name, []int64{int64(len(values))}, values))
		}
	}
	meta := f.opt.Metadata(f.done)
	meta["progress"] = string(text)
	return safetensors.Write(f.checkpoint, list, meta)
}

func (f *fit) resume(p *progress, total int) error {
	file, err := safetensors.Open(f.checkpoint)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := json.Unmarshal([]byte(file.Metadata()["progress"]), p); err != nil {
		return fmt.Errorf("%s: progress: %w", f.checkpoint, err)
	}
	if p.Updates < 0 || p.Updates >= total {
		return fmt.Errorf("%s: %d of %d updates", f.checkpoint, p.Updates, total)
	}
	for name, of := range stored {
		if name == "reference" && f.loss.Beta == 0 {
			continue
		}
		t, ok := file.Tensor(name)
		if !ok {
			return fmt.Errorf("%s: tensor %s is missing", f.checkpoint, name)
		}
		values, err := t.Float32s()
		if err != nil {
			return fmt.Errorf("%s: %w", f.checkpoint, err)
		}
		for _, x := range f.samples() {
			n := len(x.tokens)
			if len(values) < n {
				return fmt.Errorf("%s: tensor %s is of other samples", f.checkpoint, name)
			}
			*of(x), values = values[:n:n], values[n:]
		}
		if len(values) > 0 {
			return fmt.Errorf("%s: tensor %s is of other samples", f.checkpoint, name)
		}
	}
	state := f.opt.State()
	if err := state.Read(file, "", true); err != nil {
		return err
	}
	f.opt.SetState(state)
	f.done, err = f.opt.ReadMetadata(file)
	return err
}
