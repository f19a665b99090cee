package vllm

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
)

// Imitation is a server with vLLM's forms. It computes with a model of this program, and can be made to fail and to
// give false answers. Its fields may be set before requests come.
type Imitation struct {
	*httptest.Server
	// Inert takes adapters that have no effect.
	Inert bool
	// Distort changes the answer to a completion.
	Distort func(answer map[string]any)
	// ForgetAt is the completion, from 1, before which the server starts again and has no adapters; 0 is never.
	ForgetAt int

	model *lm.Model

	mutex    sync.Mutex
	adapters map[string]adapter
	failures map[string]int
	seen     Seen
}

// baseName is the name of the base model on an [Imitation].
const baseName = "base"

// Seen is what a server was asked.
type Seen struct {
	Adapters []string // names that adapters were loaded under, in order
	Loaded   int      // adapters that are loaded now
	Bodies   []string // of all requests
	Seeds    []int64  // of completions
	Prompts  [][]int32
	Drawn    int // completions
}

type adapter struct {
	lora   *lora.Adapter
	merged *lm.Model
}

// Imitate starts a server of a model, which stays the caller's.
func Imitate(t *testing.T, m *lm.Model) *Imitation {
	t.Helper()
	f := &Imitation{model: m, adapters: map[string]adapter{}, failures: map[string]int{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.handle))
	t.Cleanup(func() {
		f.Close()
		f.Forget()
	})
	return f
}

// Fail answers the next n requests of a path by 503.
func (f *Imitation) Fail(path string, n int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.failures[path] = n
}

// Forget loses all adapters, as a server does that starts again.
func (f *Imitation) Forget() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.forget()
}

func (f *Imitation) forget() {
	for name := range f.adapters {
		f.unload(name)
	}
}

func (f *Imitation) unload(name string) {
	if a, ok := f.adapters[name]; ok {
		a.lora.Free()
		a.merged.Free()
		delete(f.adapters, name)
	}
}

// Seen returns what the server was asked so far.
func (f *Imitation) Seen() Seen {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	s := f.seen
	s.Loaded = len(f.adapters)
	return s
}

// asked has the fields of all requests.
type asked struct {
	Name           string  `json:"lora_name"`
	Path           string  `json:"lora_path"`
	Model          string  `json:"model"`
	Prompt         []int32 `json:"prompt"`
	N              int     `json:"n"`
	MaxTokens      int     `json:"max_tokens"`
	MinTokens      int     `json:"min_tokens"`
	Temperature    float64 `json:"temperature"`
	TopP           float64 `json:"top_p"`
	TopK           int     `json:"top_k"`
	Seed           int64   `json:"seed"`
	StopTokens     []int32 `json:"stop_token_ids"`
	PromptLogprobs *int    `json:"prompt_logprobs"`
}

func (f *Imitation) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a request that breaks off is no JSON
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.seen.Bodies = append(f.seen.Bodies, string(body))
	if f.failures[r.URL.Path] > 0 {
		f.failures[r.URL.Path]--
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	var q asked
	if len(body) > 0 {
		if err := json.Unmarshal(body, &q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	switch r.URL.Path {
	case "/v1/models":
		data := []any{map[string]any{"id": baseName, "parent": nil, "max_model_len": f.model.Config.Context}}
		for name := range f.adapters {
			data = append(data, map[string]any{"id": name, "parent": baseName})
		}
		answer(w, map[string]any{"object": "list", "data": data})
	case "/v1/load_lora_adapter":
		if err := f.load(q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, "Success: LoRA adapter added successfully.")
	case "/v1/unload_lora_adapter":
		f.unload(q.Name)
	case "/v1/completions":
		f.complete(w, r, q)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) } // a client that is gone needs none

func (f *Imitation) load(q asked) error {
	a, err := lora.Load(q.Path, f.model)
	if err != nil {
		return err
	}
	merged, err := a.Merge(f.model, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32, Sampling: true})
	if err != nil {
		return err
	}
	f.adapters[q.Name] = adapter{a, merged}
	f.seen.Adapters = append(f.seen.Adapters, q.Name)
	return nil
}

func (f *Imitation) complete(w http.ResponseWriter, r *http.Request, q asked) {
	if q.PromptLogprobs == nil {
		if f.seen.Drawn++; f.seen.Drawn == f.ForgetAt {
			f.forget()
		}
	}
	a, ok := f.adapters[q.Model]
	if !ok && q.Model != baseName {
		w.WriteHeader(http.StatusNotFound)
		answer(w, map[string]any{"error": map[string]any{"message": "The model `" + q.Model + "` does not exist."}})
		return
	}
	f.seen.Prompts = append(f.seen.Prompts, q.Prompt)
	if q.PromptLogprobs != nil {
		f.measure(w, q, a)
		return
	}
	f.seen.Seeds = append(f.seen.Seeds, q.Seed)
	model := a.merged
	if !ok || f.Inert {
		model = f.model
	}
	drawn, err := model.Generate(r.Context(), [][]int32{q.Prompt}, q.N,
		lm.SampleOptions{Temperature: q.Temperature, TopP: q.TopP, TopK: q.TopK, MaxNewTokens: q.MaxTokens,
			MinNewTokens: q.MinTokens, StopTokens: q.StopTokens, IgnoreEOS: true, Seed: uint64(q.Seed)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var choices []any
	for i, s := range drawn[0] {
		ids, reason := s.IDs, any(nil)
		if s.Finish == "stop" { // vLLM's ids have the token that ended them
			ids, reason = append(ids, q.StopTokens[0]), q.StopTokens[0]
		}
		choices = append([]any{map[string]any{"index": i, "token_ids": append([]int32{}, ids...),
			"finish_reason": s.Finish, "stop_reason": reason, "prompt_token_ids": q.Prompt}}, choices...)
	}
	said := map[string]any{"choices": choices}
	if f.Distort != nil {
		f.Distort(said)
	}
	answer(w, said)
}

// measure answers with the log-probabilities of the prompt's tokens.
func (f *Imitation) measure(w http.ResponseWriter, q asked, a adapter) {
	var with lm.Adapter
	if a.lora != nil && !f.Inert {
		with = a.lora
	}
	list := []any{nil} // the first token is not predicted
	err := tensor.Run(func(s *tensor.Scope) error {
		for i, lp := range f.model.Score(s, []lm.Row{{Tokens: q.Prompt}}, with, false).LogProbs {
			id := strconv.Itoa(int(q.Prompt[i+1]))
			list = append(list, map[string]any{id: map[string]any{"logprob": lp, "rank": 1}})
		}
		return nil
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w,
		map[string]any{"choices": []any{map[string]any{"index": 0, "token_ids": []int{0}, "finish_reason": "length",
			"prompt_logprobs": list}}})
}
