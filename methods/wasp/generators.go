package wasp

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"popri/internal/fault"
	"popri/internal/modelcache"
	"popri/methods/method"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tokenizer"
)

// generator is a model that writes texts.
type generator struct {
	name string // in the synthetic set
	dir  string // folder; "" for the run's own generator and for a server
	api  *api   // nil for a model that is here
}

// generators are a run's generators, model.path's first.
func generators(e method.Env) ([]generator, error) {
	out := []generator{{name: nameOf(e.Config.Model.Path)}}
	for _, path := range settings.Of(e.Config).Generators {
		g := generator{name: nameOf(path)}
		if remote(path) {
			g.api = newAPI(path, e.Config.Generate.Chat)
		} else {
			dir, err := modelcache.Dir(path, shipped.Generator)
			if err != nil {
				return nil, fault.Userf("wasp.generators: %w", err)
			}
			if err := lm.CheckGenerator(dir); err != nil {
				return nil, fault.Userf("wasp.generators: %w", err)
			}
			g.dir = dir
		}
		for _, other := range out {
			if other.name == g.name {
				g.name = path
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// nameOf is the last part of a path, or a server's model.
func nameOf(path string) string {
	if remote(path) {
		_, model, _ := strings.Cut(path, "#")
		return model
	}
	return filepath.Base(path)
}

// serverContext is the longest prompt that is sent to a server, in tokens of the run's own generator; a server with
// less refuses.
const serverContext = 1 << 17

// using calls use with what draws a generator's samples, and its prompter. A further model is in memory for that long.
func (g generator) using(e method.Env, use func(sampling.Sampler, *sampling.Prompter) error) error {
	c := e.Config
	switch {
	case g.api != nil:
		p, err := sampling.NewAnswering(e.Tokenizer, c.Generate, c.Data, serverContext, c.Generate.MaxNewTokens)
		if err != nil {
			return err
		}
		return use(serving{g.api, e.Tokenizer}, p)
	case g.dir == "":
		return e.WithSampler(nil, func(s sampling.Sampler) error { return use(s, e.Prompter.Answering()) })
	}
	tok, err := tokenizer.Load(g.dir)
	if err != nil {
		return fault.User(err)
	}
	m, err := lm.Load(g.dir, lm.Options{Weights: e.Model.Compute, Compute: e.Model.Compute, Sampling: true})
	if err != nil {
		return fault.User(err)
	}
	defer m.Free()
	if err := m.CheckVocabulary(tok.VocabSize()); err != nil {
		return fault.Userf("%s: %w", g.dir, err)
	}
	p, err := sampling.NewAnswering(tok, c.Generate, c.Data, m.Config.Context, c.Generate.MaxNewTokens)
	if err != nil {
		return fault.Userf("%s: %w", g.dir, err)
	}
	if c.Generate.Chat {
		if p.Turns, err = sampling.Turns(g.dir, tok); err != nil {
			return err
		}
	}
	return use(m, p)
}

// ask is one text that is asked for.
type ask struct {
	label     int
	attribute string
	good, bad []string
}

// write has a generator write texts to file, in parts that survive a kill.
func (g generator) write(ctx context.Context, e method.Env, classes []string, asks []ask, seed uint64, file string,
	progress func(done, total int)) (rows []sampling.Row, err error) {
	err = g.using(e, func(s sampling.Sampler, p *sampling.Prompter) error {
		b := e.Writer.Batch(p, nil, 1, seed, g.name)
		for _, a := range asks {
			x, err := prompt(p, settings.Of(e.Config), classes[a.label], a.attribute, a.good, a.bad)
			if err != nil {
				return fmt.Errorf("wasp: %s: %w", g.name, err)
			}
			b.Prompts = append(b.Prompts, x)
		}
		rows, err = e.Writer.Sample(ctx, s, b, file, progress)
		return err
	})
	return rows, err
}
