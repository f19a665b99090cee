package main

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"popri/configs"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/run/assembly"
)

// memoryPlan is what doctor --model prints.
type memoryPlan struct {
	Folder     string          `json:"folder"`
	Parameters int64           `json:"parameters"`
	Plan       []assembly.Need `json:"plan"`
	Stage      string          `json:"stage"` // that needs most
	Bytes      int64           `json:"bytes"`
	Available  uint64          `json:"available_bytes,omitempty"` // of the machine's memory; 0 on a GPU
	Advice     []string        `json:"advice,omitempty"`
}

// planMemory says what the generator of a configuration needs, from its files' headers.
func planMemory(c configs.Config) (*memoryPlan, error) {
	dir, err := assembly.GeneratorDir(c.Model.Path)
	if err != nil {
		return nil, err
	}
	shape, err := lm.Inspect(dir)
	if err != nil {
		return nil, usage(err)
	}
	p := &memoryPlan{Folder: dir, Parameters: shape.Parameters, Plan: assembly.MemoryPlan(c, shape)}
	if shape.Untied {
		p.Advice = append(p.Advice, "lm_head.weight differs from the token embedding: it is used, as in transformers, though "+
			"config.json says tie_word_embeddings: true")
	}
	p.Stage, p.Bytes = assembly.Most(p.Plan)
	if tensor.DefaultDevice() == tensor.CPU {
		if _, p.Available, err = machineMemory(); err != nil {
			return nil, err
		}
	}
	smaller := c
	for _, try := range []struct{ key, value string }{{"model.weights", "compute"},
		{"optimizer.gradient_checkpointing", "true"},
		{"dpo.micro_pairs", "1"}, {"generate.batch_tokens", "4096"}} {
		before := smaller
		if err := smaller.Set(try.key, try.value); err != nil {
			return nil, err
		}
		_, was := assembly.Most(assembly.MemoryPlan(before, shape))
		if _, is := assembly.Most(assembly.MemoryPlan(smaller, shape)); is < was {
			p.Advice = append(p.Advice, fmt.Sprintf("%s=%s as well: %s at most", try.key, try.value,
				humanize.IBytes(uint64(is))))
		} else {
			smaller = before
		}
	}
	return p, nil
}

func (p *memoryPlan) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s parameters\n\n", p.Folder, humanize.Comma(p.Parameters))
	for _, n := range p.Plan {
		fmt.Fprintf(w, "%s\t%s\t%s\n", n.Stage, humanize.IBytes(uint64(n.Bytes)), n.Part)
	}
	fmt.Fprintf(w, "\n%s needs most: %s", p.Stage, humanize.IBytes(uint64(p.Bytes)))
	if p.Available > 0 {
		fmt.Fprintf(w, "; available: %s", humanize.IBytes(p.Available))
	}
	fmt.Fprintln(w, ". Encoder, public text and libraries come on top.")
	for _, a := range p.Advice {
		fmt.Fprintf(w, "→ %s\n", a)
	}
}
