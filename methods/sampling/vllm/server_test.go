package vllm

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/lm"
	"popri/testkit/testfile"
)

var options = lm.SampleOptions{Temperature: 1, TopP: 0.9, TopK: 5, MaxNewTokens: 12, MinNewTokens: 2, Seed: 7}

// Samples come in order, from seeds that leave room for each prompt's samples, with every setting of the draw in the
// request; each adapter has a name of its own, and its folder goes.
func TestGenerate(t *testing.T) {
	m := smallModel(t, 1)
	f := Imitate(t, m)
	f.Fail("/v1/completions", 3) // they pass
	f.Fail("/v1/models", 2)
	server := of(f)
	var proofs []Proof
	server.Loaded = func(p Proof) { proofs = append(proofs, p) }
	var first [][]lm.Sample
	for round := range 2 {
		dir := filepath.Join(t.TempDir(), "engine")
		s := server.Sampler(m, smallAdapter(t, m, uint64(round)), dir)
		got, err := s.Generate(t.Context(), prompts(20), 3, options)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 20 {
			t.Fatalf("%d prompts", len(got))
		}
		for _, drawn := range got {
			for _, x := range drawn {
				if len(drawn) != 3 || slices.Contains(x.IDs, eos) || len(x.IDs) < 2 || len(x.IDs) > 12 ||
					(x.Finish == "length") != (len(x.IDs) == 12) {
					t.Errorf("drew %+v", drawn)
				}
			}
		}
		if first == nil {
			first = got
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of the adapter is left: %v", err)
		}
	}
	seen := f.Seen()
	if a := seen.Adapters; len(a) != 2 || a[0] == a[1] || seen.Loaded != 0 {
		t.Errorf("adapters were loaded as %q, %d are left", a, seen.Loaded)
	}
	for _, p := range proofs {
		if p.Share < 0.99 || p.Share > 1.01 || p.Effect < 0.01 || p.Distance > 1e-4 {
			t.Errorf("the proof is %+v", p)
		}
	}
	seeds := slices.Compact(slices.Sorted(slices.Values(seen.Seeds)))
	if len(seeds) != 20 {
		t.Errorf("%d seeds for 20 prompts", len(seeds))
	}
	for i := 1; i < len(seeds); i++ {
		if seeds[i]-seeds[i-1] < 3 {
			t.Errorf("seeds %d and %d are nearer than the samples of a prompt", seeds[i-1], seeds[i])
		}
	}
	for _, key := range []string{"temperature", "top_p", "top_k", "min_p", "seed", "n", "repetition_penalty",
		"min_tokens"} {
		if !strings.Contains(seen.Bodies[len(seen.Bodies)-2], `"`+key+`":`) {
			t.Errorf("the request leaves %s to the server: %s", key, seen.Bodies[len(seen.Bodies)-2])
		}
	}
}

// An adapter that the server takes without effect, and a server of another model, are found out.
func TestAdapterCanary(t *testing.T) {
	m := smallModel(t, 1)
	f := Imitate(t, m)
	f.Inert = true
	_, err := of(f).Sampler(m, smallAdapter(t, m, 1), t.TempDir()).Generate(t.Context(), prompts(4), 2, options)
	if !has(err, "does not have the effect", "0 %") {
		t.Errorf("an adapter without effect: %v", err)
	}
	if f.Seen().Drawn > 0 {
		t.Error("samples were drawn without a proof")
	}
	other := Imitate(t, smallModel(t, 2))
	_, err = of(other).Sampler(m, nil, "").Generate(t.Context(), prompts(4), 2, options)
	if !has(err, "is not the run's model.path") {
		t.Errorf("another model: %v", err)
	}
}

// A server that started again in the middle gets the adapter again, under another name, and proves it again.
func TestRestartedServer(t *testing.T) {
	m := smallModel(t, 1)
	f := Imitate(t, m)
	f.ForgetAt = 30
	s := of(f).Sampler(m, smallAdapter(t, m, 1), t.TempDir())
	got, err := s.Generate(t.Context(), prompts(60), 2, options)
	if err != nil || len(got) != 60 {
		t.Fatalf("%d prompts: %v", len(got), err)
	}
	if a := f.Seen().Adapters; len(a) != 2 || a[0] == a[1] {
		t.Errorf("the adapter was loaded as %q", a)
	}
	alone := Imitate(t, m)
	want, err := of(alone).Sampler(m, smallAdapter(t, m, 1), t.TempDir()).Generate(t.Context(), prompts(60), 2, options)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !slices.EqualFunc(got[i], want[i], func(a, b lm.Sample) bool { return slices.Equal(a.IDs, b.IDs) }) {
			t.Errorf("prompt %d was asked for with another seed after the restart", i)
		}
	}
}

// A server that is gone, refuses, or redirects ends the stage with what it said.
func TestRefusals(t *testing.T) {
	m := smallModel(t, 1)
	draw := func(ctx context.Context, f *Imitation) error {
		_, err := of(f).Sampler(m, nil, "").Generate(ctx, prompts(40), 2, options)
		return err
	}
	f := Imitate(t, m)
	f.Fail("/v1/completions", 1<<30)
	if err := draw(t.Context(), f); !has(err, "503", "starting") {
		t.Errorf("a server that never starts: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := draw(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled draw: %v", err)
	}
	f.Close()
	if err := draw(t.Context(), f); !has(err, "no answer for", "refused") {
		t.Errorf("a server that is gone: %v", err)
	}
	away := Imitate(t, m)
	away.Config.Handler = http.RedirectHandler("http://192.0.2.1/", http.StatusTemporaryRedirect)
	if err := draw(t.Context(), away); !has(err, "307") {
		t.Errorf("a redirect is followed: %v", err)
	}
	short := Imitate(t, m)
	o := options
	o.MaxNewTokens = 60
	if _, err := of(short).Sampler(m, nil, "").Generate(t.Context(), prompts(40), 2, o); !has(err, "max-model-len") {
		t.Errorf("prompts that are too long for the server: %v", err)
	}
	inert := Imitate(t, m)
	gone := testfile.Write(t, filepath.Join(t.TempDir(), "file"), "")
	if _, err := of(inert).Sampler(m, smallAdapter(t, m, 1), gone).Generate(t.Context(), prompts(4), 2,
		options); err == nil {
		t.Error("an adapter's folder that cannot be made is no error")
	}
}

// Nothing in an answer is taken on trust.
func TestAnswersAreChecked(t *testing.T) {
	m := smallModel(t, 1)
	one := func(answer map[string]any) map[string]any { return answer["choices"].([]any)[1].(map[string]any) }
	for want, distort := range map[string]func(map[string]any){
		"2 choices, 3":     func(a map[string]any) { a["choices"] = a["choices"].([]any)[:2] },
		"not numbered":     func(a map[string]any) { one(a)["index"] = 0 },
		"numbered 0":       func(a map[string]any) { delete(one(a), "index") },
		"no token_ids":     func(a map[string]any) { delete(one(a), "token_ids") },
		"token 1 is 32":    func(a map[string]any) { one(a)["token_ids"] = []int{1, 32, 3} },
		"token 0 is -1":    func(a map[string]any) { one(a)["token_ids"] = []int{-1} },
		"is 4294967297":    func(a map[string]any) { one(a)["token_ids"] = []int64{1<<32 + 1} },
		"it has 13 tokens": func(a map[string]any) { one(a)["token_ids"] = make([]int, 13) },
		"cut after 4": func(a map[string]any) {
			one(a)["token_ids"], one(a)["finish_reason"] = make([]int, 4),
				"length"
		},
		"ends after 1 tokens": func(a map[string]any) {
			one(a)["token_ids"], one(a)["finish_reason"] = []int{1, eos},
				"stop"
		},
		"for no reason": func(a map[string]any) {
			one(a)["token_ids"], one(a)["finish_reason"], one(a)["stop_reason"] = []int{1, 2, 3}, "stop", nil
		},
		"finish_reason is \"tool": func(a map[string]any) { one(a)["finish_reason"] = "tool_calls" },
		"gave the request up":     func(a map[string]any) { one(a)["finish_reason"] = "abort" },
		"not the one sent":        func(a map[string]any) { one(a)["prompt_token_ids"] = []int{1} },
		"cannot be read":          func(a map[string]any) { a["choices"] = "none" },
	} {
		f := Imitate(t, m)
		f.Distort = distort
		_, err := of(f).Sampler(m, nil, "").Generate(t.Context(), prompts(2), 3, options)
		if !has(err, want, "prompt ") {
			t.Errorf("%s: %v", want, err)
		}
	}
	f := Imitate(t, m) // a server that leaves stop tokens out of the answer
	f.Distort = func(a map[string]any) {
		for _, c := range a["choices"].([]any) {
			if c := c.(map[string]any); c["finish_reason"] == "stop" {
				ids := c["token_ids"].([]int32)
				c["token_ids"] = ids[:len(ids)-1]
			}
		}
	}
	if _, err := of(f).Sampler(m, nil, "").Generate(t.Context(), prompts(20), 3, options); err != nil {
		t.Errorf("answers without their stop tokens: %v", err)
	}
}

// A text that ends a sample ends it where it ends samples here.
func TestStopTexts(t *testing.T) {
	m := smallModel(t, 1)
	f := Imitate(t, m)
	o := options
	o.Stop = func(_, ids []int32) bool { return ids[len(ids)-1] < 8 }
	got, err := of(f).Sampler(m, nil, "").Generate(t.Context(), prompts(20), 3, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, drawn := range got {
		for _, x := range drawn {
			for i, id := range x.IDs {
				if id < 8 && (i < len(x.IDs)-1 || x.Finish != "stop") {
					t.Errorf("a sample goes on behind its end: %+v", x)
				}
			}
		}
	}
}
