package vllm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"popri/internal/apiclient"
	"popri/lora"
	"popri/model/lm"
)

// requests is the number of prompts that wait for an answer at once. The server batches what it has, so it should have
// more than it computes together.
const requests = 32

// unloadTime is how long an adapter's removal may take at the end.
const unloadTime = 15 * time.Second

// keyVariable is the environment variable with the server's API key; vLLM itself reads it too.
const keyVariable = "VLLM_API_KEY"

// unknownModel reports whether a server does not know the model of a request: it has forgotten an adapter.
func unknownModel(err error) bool {
	r, ok := errors.AsType[*apiclient.Refused](err)
	return ok && r.Status == http.StatusNotFound
}

// Server is a vLLM server that holds the base model of a run.
type Server struct {
	// Stops are the texts at which a sample ends besides stop tokens; lm.SampleOptions.Stop must find the same.
	Stops []string
	// Loaded, if not nil, is told of each adapter that was loaded and proved, and of the base.
	Loaded func(Proof)

	client *apiclient.Client

	mutex  sync.Mutex
	base   string // the server's name of the base model; "" until it was asked
	length int    // the server's longest sequence in tokens; 0 if it does not say
}

// New describes the server at a URL. It is asked nothing before the first samples are drawn.
func New(url string) *Server {
	return &Server{client: apiclient.New(url, "vllm", os.Getenv(keyVariable))}
}

// models asks the server what it holds: one base model, and adapters.
func (s *Server) models(ctx context.Context) (base string, length int, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.base != "" {
		return s.base, s.length, nil
	}
	var list struct {
		Data []struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"`
			Length int     `json:"max_model_len"`
		} `json:"data"`
	}
	if err := s.client.Do(ctx, http.MethodGet, "/v1/models", nil, &list); err != nil {
		return "", 0, err
	}
	for _, m := range list.Data {
		if s.base == "" && m.ID != "" && m.Parent == nil { // an adapter has a parent
			s.base, s.length = m.ID, m.Length
		}
	}
	if s.base == "" {
		return "", 0, fmt.Errorf("vllm: %s/v1/models names no base model", s.client.URL)
	}
	return s.base, s.length, nil
}

// Sampler draws samples of the model with an adapter. It implements sampling.Sampler. Close releases it.
type Sampler struct {
	server  *Server
	model   *lm.Model
	adapter *lora.Adapter // nil is the base
	dir     string        // the folder in which the adapter is given to the server

	mutex  sync.Mutex
	name   string // of the model on the server; "" while the adapter is not loaded
	canary *canary
}

// Sampler prepares to draw with an adapter of the model, nil for none; nothing is sent before it draws. The adapter is
// written to a folder in dir when it is needed, which the server must be able to read under the same path. The model
// computes what the server's answers are compared with.
func (s *Server) Sampler(model *lm.Model, adapter *lora.Adapter, dir string) *Sampler {
	return &Sampler{server: s, model: model, adapter: adapter, dir: dir}
}

// Generate draws samples as [lm.Model.Generate] does, with other random numbers. A sample's numbers follow from o.Seed
// and its place, but servers promise no equal samples.
func (t *Sampler) Generate(ctx context.Context, prompts [][]int32, samples int, o lm.SampleOptions) ([][]lm.Sample, error) {
	o.MaxNewTokens = max(1, o.MaxNewTokens)
	if samples < 1 || o.Temperature <= 0 {
		return nil, fmt.Errorf("vllm: %d samples at temperature %g: both must be above 0", samples, o.Temperature)
	}
	if len(prompts) == 0 {
		return nil, nil
	}
	for i, p := range prompts {
		if len(p) == 0 {
			return nil, fmt.Errorf("vllm: prompt %d is empty", i)
		}
		if err := t.model.CheckTokens(p); err != nil {
			return nil, fmt.Errorf("vllm: prompt %d: %w", i, err)
		}
	}
	if err := t.prepare(ctx, prompts, o.MaxNewTokens); err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	out := make([][]lm.Sample, len(prompts))
	var done atomic.Int64
	for i, p := range prompts {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			drawn, err := t.draw(ctx, p, i, samples, o)
			if err != nil {
				return fmt.Errorf("vllm: prompt %d: %w", i, err)
			}
			out[i] = drawn
			if n := done.Add(int64(samples)); o.Progress != nil {
				o.Progress(int(n), len(prompts)*samples)
			}
			return nil
		})
	}
	if group.Wait() != nil {
		return nil, context.Cause(ctx) // the first error, or why the caller's context ended
	}
	return out, nil
}

// prepare asks what the server holds, and loads and proves the adapter.
func (t *Sampler) prepare(ctx context.Context, prompts [][]int32, longest int) error {
	_, length, err := t.server.models(ctx)
	if err != nil {
		return err
	}
	for i, p := range prompts {
		if length > 0 && len(p)+longest > length {
			return fmt.Errorf("vllm: prompt %d has %d tokens, which leaves no room for %d new ones in the server's "+
				"longest sequence of %d (its --max-model-len)", i, len(p), longest, length)
		}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.canary == nil {
		if t.canary, err = newCanary(t.model, t.adapter, prompts); err != nil {
			return err
		}
	}
	if t.name == "" {
		return t.load(ctx)
	}
	return nil
}

// seedSpace keeps seeds, with a child's number added, whole in every program that reads numbers as float64.
const seedSpace = 1 << 52

// draw asks for the samples of a prompt, again where the server gave it up or has forgotten the adapter.
func (t *Sampler) draw(ctx context.Context, prompt []int32, index, samples int, o lm.SampleOptions) ([]lm.Sample, error) {
	stop := o.Stops(t.model.Config)
	q := request{Prompt: prompt, N: samples, MaxTokens: o.MaxNewTokens, MinTokens: o.MinNewTokens,
		Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK, RepetitionPenalty: 1, Stop: t.server.Stops,
		IgnoreEOS: true, ReturnTokens: true,
		StopTokens: slices.Sorted(maps.Keys(stop)),
		// Sample i of a prompt is drawn with the seed + i.
		Seed: int64(o.Seed%seedSpace) + int64(index)*int64(samples)}
	q.TopP = cmp.Or(q.TopP, 1)
	const attempts = 5 // of a server that answers
	for try := 1; ; try++ {
		name, err := t.current(ctx, "")
		if err != nil {
			return nil, err
		}
		q.Model = name
		var answer completion
		err = t.server.client.Do(ctx, http.MethodPost, "/v1/completions", q, &answer)
		if unknownModel(err) && try < attempts {
			if _, err := t.current(ctx, name); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		drawn, err := answer.samples(q, t.model.Config.Vocab, o, stop)
		if errors.Is(err, errAborted) && try < attempts {
			continue
		}
		return drawn, err
	}
}

// current returns the name under which the server has the model. If it is the forgotten one, it loads the adapter
// again.
func (t *Sampler) current(ctx context.Context, forgotten string) (string, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.name == "" || t.name == forgotten {
		t.name = ""
		if err := t.load(ctx); err != nil {
			return "", err
		}
	}
	return t.name, nil
}

// load gives the server the adapter under a name that was never used before, since servers keep what they once loaded
// under a name, and proves that it took effect.
func (t *Sampler) load(ctx context.Context) error {
	base, _, err := t.server.models(ctx)
	if err != nil {
		return err
	}
	name := base
	if t.adapter != nil {
		name = "popri-" + rand.Text()
		dir, err := filepath.Abs(filepath.Join(t.dir, name))
		if err != nil {
			return fmt.Errorf("vllm: %w", err)
		}
		if err := t.adapter.Save(dir); err != nil {
			return err
		}
		body := map[string]string{"lora_name": name, "lora_path": dir}
		if err := t.server.client.Do(ctx, http.MethodPost, "/v1/load_lora_adapter", body, nil); err != nil {
			if unknownModel(err) {
				err = fmt.Errorf("%w (a server that takes adapters is started with --enable-lora and "+
					"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment, and reads the folder %s under this path)", err, dir)
			}
			return fmt.Errorf("load the adapter: %w", err)
		}
	}
	proof, err := t.canary.prove(ctx, t.server.client, base, name)
	if err != nil {
		return err
	}
	t.name = name
	if t.server.Loaded != nil {
		t.server.Loaded(proof)
	}
	return nil
}

// Close has the server forget the adapter and removes its folder. A server that is gone is no error.
func (t *Sampler) Close() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.adapter == nil {
		return nil
	}
	if t.name != "" {
		ctx, cancel := context.WithTimeout(context.Background(), unloadTime)
		defer cancel()
		_, _ = t.server.client.Once(ctx, http.MethodPost, "/v1/unload_lora_adapter",
			[]byte(`{"lora_name":`+strconv.Quote(t.name)+`}`)) // it makes room; the name is not used again in any case
		t.name = ""
	}
	return os.RemoveAll(t.dir)
}
