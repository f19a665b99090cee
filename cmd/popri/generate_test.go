package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"popri/lora"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/run/textgen"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

// rewrite changes the values of a safetensors file.
func rewrite(t *testing.T, path string, change func(name string, values []float32)) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []safetensors.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		change(name, values)
		tensors = append(tensors, safetensors.FromFloat32(name, x.Shape, values))
	}
	if err := safetensors.Write(path, tensors, f.Metadata()); err != nil {
		t.Fatal(err)
	}
}

// tinyAdapter writes a random adapter for the model in dir.
func tinyAdapter(t *testing.T, dir string) string {
	t.Helper()
	m := testmodel.Load(t, dir, lm.Options{})
	defer m.Free()
	random := rand.New(rand.NewPCG(3, 4))
	a, err := lora.New(m, lora.Config{Rank: 2, Alpha: 4}, random)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	out := t.TempDir()
	if err := a.Save(out); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(out, "adapter_model.safetensors"), func(_ string, values []float32) {
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
	})
	return out
}

// lines reads samples in the form of JSON lines.
func lines(t *testing.T, content string) (out []textgen.Sample) {
	t.Helper()
	for line := range strings.Lines(content) {
		var s textgen.Sample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, s)
	}
	return out
}

func TestGenerate(t *testing.T) {
	model, dir := tinyModel(t), t.TempDir()
	prompts := write(t, dir, "prompts.jsonl", "{\"prompt\": \"the cat\"}\n\n\ufeff{\"ids\": [3, 4, 5]}\n")
	command := func(more ...string) []string {
		return append([]string{"generate", "--model", model, "--prompts", prompts, "--samples", "3", "--max-new-tokens",
			"8", "--quiet"}, more...)
	}
	code, out, errs := popri(t, command()...)
	if code != 0 || errs != "" {
		t.Fatal(code, errs)
	}
	drawn := lines(t, out)
	if len(drawn) != 6 {
		t.Fatalf("%d samples, want 6", len(drawn))
	}
	for i, s := range drawn {
		if s.Prompt != i/3 || s.Sample != i%3 || len(s.IDs) > 8 || s.Finish != "stop" && s.Finish != "length" ||
			(s.Finish == "length") != (len(s.IDs) == 8) {
			t.Errorf("sample %d is %+v", i, s)
		}
	}
	if drawn[0].Before != "the cat" {
		t.Errorf("the prompt is %q", drawn[0].Before)
	}

	// The same seed gives the same samples in every form; another gives others.
	jsonl, table := filepath.Join(dir, "s.jsonl"), filepath.Join(dir, "s.parquet")
	for _, path := range []string{jsonl, table} {
		code, out, errs := popri(t, command("--out", path, "--json")...)
		if v := decode(t, out); code != 0 || v["prompts"] != 2.0 || v["samples_per_prompt"] != 3.0 ||
			v["out"] != path || v["samples"] != nil {
			t.Errorf("exit code %d, %v, %s", code, v, errs)
		}
	}
	b, err := os.ReadFile(jsonl)
	if err != nil || !reflect.DeepEqual(lines(t, string(b)), drawn) {
		t.Errorf("%v: JSON lines in a file differ", err)
	}
	rows, err := parquet.ReadFile[textgen.Sample](table)
	if err != nil || !reflect.DeepEqual(rows, drawn) {
		t.Errorf("%v: Parquet differs:\n%+v\n%+v", err, rows, drawn)
	}
	_, out, _ = popri(t, command("--json")...)
	var object struct{ Samples []textgen.Sample }
	if err := json.Unmarshal([]byte(out), &object); err != nil || !reflect.DeepEqual(object.Samples, drawn) {
		t.Errorf("%v: the object differs", err)
	}
	if _, out, _ = popri(t, command("--seed", "2")...); reflect.DeepEqual(lines(t, out), drawn) {
		t.Error("another seed gives the same samples")
	}

	// Nor does it matter how many are drawn at once, in float32.
	_, whole, _ := popri(t, command("--dtype", "float32")...)
	if _, out, errs := popri(t, command("--dtype", "float32", "--cache", "1B")...); !reflect.DeepEqual(lines(t, out),
		lines(t, whole)) {
		t.Errorf("%s: with less memory the samples differ", errs)
	}

	// Greedy samples of a prompt are equal; an adapter changes them.
	_, out, _ = popri(t, command("--temperature", "0")...)
	greedy := lines(t, out)
	if !reflect.DeepEqual(greedy[0].IDs, greedy[1].IDs) || !reflect.DeepEqual(greedy[3].IDs, greedy[5].IDs) {
		t.Errorf("greedy samples differ: %+v", greedy)
	}
	code, out, errs = popri(t, command("--temperature", "0", "--adapter", tinyAdapter(t, model))...)
	if code != 0 || reflect.DeepEqual(lines(t, out), greedy) {
		t.Errorf("exit code %d, %s: the adapter changes nothing", code, errs)
	}

	// A stop text ends a sample and is not part of it.
	for _, s := range greedy {
		if len(s.Text) < 2 {
			continue
		}
		stop := s.Text[len(s.Text)-1:]
		_, out, _ := popri(t, command("--temperature", "0", "--stop", stop)...)
		got := lines(t, out)[s.Prompt*3]
		if want, _, _ := strings.Cut(s.Text, stop); got.Text != want || got.Finish != "stop" {
			t.Errorf("stop %q: %q (%s), want %q", stop, got.Text, got.Finish, want)
		}
	}
}

// TestBadInput: a damaged or unsuitable file gives code 2, says which file and what is wrong, and leaves what is there.
func TestBadInput(t *testing.T) {
	const model = safetensors.ModelFile
	good := `{"prompt": "the cat"}`
	for _, c := range []struct {
		name    string
		damage  func(t *testing.T, model, adapter string)
		prompts string
		want    []string
	}{
		{"nothing", nil, good, nil},
		{"weights cut off", func(t *testing.T, dir, _ string) {
			b := testfile.Read(t, filepath.Join(dir, model))
			write(t, dir, model, string(b[:len(b)-100]))
		}, good, []string{model}},
		{"weights cut off in the header", func(t *testing.T, dir, _ string) {
			b := testfile.Read(t, filepath.Join(dir, model))
			write(t, dir, model, string(b[:50]))
		}, good, []string{model}},
		{"empty weights", func(t *testing.T, dir, _ string) { write(t, dir, model, "") }, good, []string{model}},
		{"no weights", func(t *testing.T, dir, _ string) { os.Remove(filepath.Join(dir, model)) }, good,
			[]string{model}},
		{"NaN weight", func(t *testing.T, dir, _ string) {
			rewrite(t, filepath.Join(dir, model), func(name string, values []float32) {
				if strings.HasSuffix(name, "wte.weight") {
					values[7] = float32(math.NaN())
				}
			})
		}, good, []string{"wte.weight", "NaN"}},
		{"weights of another shape", func(t *testing.T, dir, _ string) {
			testfile.EditJSON(t, filepath.Join(dir, "config.json"), func(v map[string]any) { v["n_embd"] = 32 })
		}, good, []string{"wte.weight", "[270 16]", "[270 32]"}},
		{"no config", func(t *testing.T, dir, _ string) { os.Remove(filepath.Join(dir, "config.json")) }, good,
			[]string{"config.json", "no such file"}},
		{"config is no JSON", func(t *testing.T, dir, _ string) { write(t, dir, "config.json", "{") }, good,
			[]string{"config.json"}},
		{"unknown architecture", func(t *testing.T, dir, _ string) {
			testfile.EditJSON(t, filepath.Join(dir, "config.json"), func(v map[string]any) { v["model_type"] = "mamba" })
		}, good, []string{"config.json", "mamba", "gpt2"}},
		{"merge missing", func(t *testing.T, dir, _ string) {
			testfile.EditJSON(t, filepath.Join(dir, "tokenizer.json"), func(v map[string]any) {
				m := v["model"].(map[string]any)
				m["merges"] = m["merges"].([]any)[1:]
			})
		}, good, []string{"tokenizer.json", "merge is missing"}},
		{"token missing", func(t *testing.T, dir, _ string) {
			testfile.EditJSON(t, filepath.Join(dir, "tokenizer.json"), func(v map[string]any) {
				m := v["model"].(map[string]any)
				vocab := m["vocab"].(map[string]any)
				for piece, id := range vocab {
					if id == 260.0 {
						delete(vocab, piece)
					}
				}
			})
		}, good, []string{"tokenizer.json", "not in the vocabulary"}},
		{"no tokenizer", func(t *testing.T, dir, _ string) { os.Remove(filepath.Join(dir, "tokenizer.json")) }, good,
			[]string{"tokenizer.json", "no such file"}},
		{"adapter cut off", func(t *testing.T, _, adapter string) {
			write(t, adapter, "adapter_model.safetensors", "short")
		}, good, []string{"adapter_model.safetensors"}},
		{"adapter of another rank", func(t *testing.T, _, adapter string) {
			testfile.EditJSON(t, filepath.Join(adapter, "adapter_config.json"), func(v map[string]any) { v["r"] = 3 })
		}, good, []string{"adapter_model.safetensors", "rank 3"}},
		{"adapter with DoRA and no lengths", func(t *testing.T, _, adapter string) {
			testfile.EditJSON(t, filepath.Join(adapter, "adapter_config.json"), func(v map[string]any) { v["use_dora"] = true })
		}, good, []string{"adapter_model.safetensors", "lora_magnitude_vector is missing"}},
		{"adapter with NaN", func(t *testing.T, _, adapter string) {
			rewrite(t, filepath.Join(adapter, "adapter_model.safetensors"),
				func(_ string, values []float32) { values[0] = float32(math.NaN()) })
		}, good, []string{"adapter_model.safetensors", "NaN"}},
		{"no adapter", func(t *testing.T, _,
			adapter string) {
			os.Remove(filepath.Join(adapter, "adapter_config.json"))
		}, good, []string{"adapter_config.json", "no such file"}},
		{"no prompts", nil, "\n\n", []string{"no prompts"}},
		{"prompts are no JSON", nil, good + "\nthe cat\n", []string{"prompts.jsonl:2"}},
		{"prompt cut off", nil, good + "\n" + good[:10], []string{"prompts.jsonl:2"}},
		{"unknown key", nil, `{"text": "the cat"}`, []string{"prompts.jsonl:1", "text"}},
		{"prompt and ids", nil, `{"prompt": "the cat", "ids": [1]}`, []string{"prompts.jsonl:1", "one of"}},
		{"a name twice", nil, `{"prompt": "a", "prompt": "b"}`, []string{"prompts.jsonl:1", "twice"}},
		{"prompt is not UTF-8", nil, "{\"prompt\": \"a\xff\"}", []string{"prompts.jsonl:1", "UTF-8"}},
		{"long unknown name", nil, `{"` + strings.Repeat("x", 3000) + `": 1}`, []string{"prompts.jsonl:1", "… ("}},
		{"neither prompt nor ids", nil, `{}`, []string{"prompts.jsonl:1", "one of"}},
		{"messages without a template", nil, `{"messages": [{"role": "user", "content": "the cat"}]}`,
			[]string{"prompts.jsonl:1", "chat template"}},
		{"a prompt that is a number", nil, `{"prompt": 3}`, []string{"prompts.jsonl:1", "list of messages"}},
		{"two objects", nil, good + good, []string{"prompts.jsonl:1", "follows"}},
		{"empty prompt", nil, `{"prompt": ""}`, []string{"prompts.jsonl:1", "no tokens"}},
		{"token outside the vocabulary", nil, good + "\n" + `{"ids": [1, 270]}`,
			[]string{"prompts.jsonl:2", "token 270", "vocabulary of 270"}},
		{"negative token", nil, `{"ids": [-1]}`, []string{"prompts.jsonl:1", "token -1"}},
		{"huge token", nil, `{"ids": [4294967296]}`, []string{"prompts.jsonl:1", "4294967296"}},
		{"too long", nil, `{"ids": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}`,
			[]string{"prompts.jsonl:1", "26 tokens", "context of 32"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tinyModel(t)
			adapter := tinyAdapter(t, dir)
			if c.damage != nil {
				c.damage(t, dir, adapter)
			}
			work := t.TempDir()
			prompts := write(t, work, "prompts.jsonl", c.prompts)
			out := write(t, work, "out.jsonl", "what was there")
			code, stdout, errs := popri(t, "generate", "--model", dir, "--adapter", adapter, "--prompts", prompts,
				"--max-new-tokens", "8", "--out", out, "--json", "--quiet")
			if len(c.want) == 0 {
				if code != 0 {
					t.Errorf("exit code %d: %s", code, errs)
				}
				return
			}
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d, standard output %q", code, stdout)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("%q lacks %q", errs, want)
				}
			}
			if b, err := os.ReadFile(out); err != nil || string(b) != "what was there" {
				t.Errorf("the old file is now %q, %v", b, err)
			}
		})
	}
}

// TestUnwritable: where the result cannot be written, that is said before any work, and nothing is left behind.
func TestUnwritable(t *testing.T) {
	model, dir := tinyModel(t), t.TempDir()
	prompts := write(t, dir, "prompts.jsonl", "not read yet")
	for _, out := range []string{filepath.Join(dir, "missing", "out.jsonl"), filepath.Join(prompts, "out.jsonl")} {
		code, stdout, errs := popri(t, "generate", "--model", model, "--prompts", prompts, "--max-new-tokens", "4",
			"--out", out, "--quiet")
		if code != exitUsage || stdout != "" || !strings.Contains(errs, out) {
			t.Errorf("exit code %d, %q, %s", code, stdout, errs)
		}
		code, _, errs = popri(t, "data", "build", "godoc", "--out", out, "--public", filepath.Join(dir, "public.jsonl"))
		if code != exitUsage || !strings.Contains(errs, out) {
			t.Errorf("exit code %d, %s", code, errs)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
