package benchmark

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// checkSum reports lines below 0 and lines that do not add up to the whole.
func checkSum(t *testing.T, p *Profile) {
	t.Helper()
	sum := 0.0
	for _, l := range p.Lines {
		if !(l.Seconds >= 0) || math.Abs(l.Share*p.Whole-l.Seconds) > 1e-9 {
			t.Errorf("%+v of %g s", l, p.Whole)
		}
		sum += l.Seconds
	}
	if math.Abs(sum-p.Whole) > 1e-9*p.Whole {
		t.Errorf("the lines are %g s, the whole %g s", sum, p.Whole)
	}
	ops := 0.0
	for _, o := range p.Operations {
		ops += o.Seconds
	}
	if math.Abs(ops+seconds(p, idle)-p.Whole) > 1e-9*p.Whole {
		t.Errorf("operations of %g s and %g s of idle threads, the whole %g s", ops, seconds(p, idle), p.Whole)
	}
}

func seconds(p *Profile, class string) float64 {
	for _, l := range p.Lines {
		if l.Class == class {
			return l.Seconds
		}
	}
	return math.NaN()
}

// Work that is known to be products, forward and backward, has products as its largest line, whether it runs in tasks
// side by side or one operation uses all threads.
func TestProfileOfProducts(t *testing.T) {
	task := func(_ int, s *tensor.Scope) error {
		x := s.Full(tensor.Float32, 0.5, 512, 512)
		s.RequireGrad(x, true)
		for range 10 {
			s.Do(func() { s.WithGrad(func() { s.Backward(s.Sum(s.MatMul(x, x)), []tensor.Tensor{x}) }) })
		}
		return nil
	}
	for name, work := range map[string]func() error{
		"tasks":   func() error { return tensor.Parallel(8, task) },
		"threads": func() error { return tensor.Run(func(s *tensor.Scope) error { return task(0, s) }) },
		"nested":  func() error { return tensor.Run(func(*tensor.Scope) error { return tensor.Parallel(8, task) }) },
	} {
		wrong := ""
		for range 5 { // another process may stop a thread within an operation, whose time then looks long
			r, err := measure("x", "float32", "y", true, func() (int, error) { return 1, work() })
			if err != nil {
				t.Fatal(err)
			}
			checkSum(t, r.Profile)
			if busy := r.Profile.Whole - seconds(r.Profile, idle); busy > r.Seconds*float64(r.Threads)*(1+1e-9) {
				t.Errorf("%s: %d threads were busy for %g s in %g s", name, r.Threads, busy, r.Seconds)
			}
			if wrong = largest(r.Profile); wrong == "" {
				break
			}
		}
		if wrong != "" {
			t.Errorf("%s: %s is larger than products, five times", name, wrong)
		}
	}
}

// largest is a class of operations with more time than matrix products, "" for none. Other processes may use the
// processor, and the time without it is Go's or idle.
func largest(p *Profile) string {
	for _, l := range p.Lines {
		if l.Class != golang && l.Class != idle && l.Seconds > seconds(p, products) {
			return l.Class
		}
	}
	return ""
}

func TestProfileClasses(t *testing.T) {
	for _, c := range []struct {
		name string
		in   tensor.Region
		want string
	}{
		{"aten::mm", tensor.Elsewhere, products},
		{"aten::mm", tensor.Attention, attention},
		{"aten::addmm_", tensor.Head, head},
		{"aten::add_", tensor.Elsewhere, elementwise},
		{"aten::add_", tensor.Training, optimizer},
		{"aten::copy_", tensor.Attention, copies},
		{"aten::empty", tensor.Head, allocation},
		{tensor.GoName, tensor.Attention, golang},
		{"aten::unheard_of", tensor.Head, other},
		{"MmBackward0", tensor.Attention, other},
	} {
		if got := classify(tensor.Operation{Name: c.name, Region: c.in}); got != c.want {
			t.Errorf("%s in region %d is %q, want %q", c.name, c.in, got, c.want)
		}
	}
	seen := map[string]string{}
	for class, names := range operations {
		for _, name := range strings.Fields(names) {
			if seen[name] != "" {
				t.Errorf("%s is in %q and in %q", name, class, seen[name])
			}
			seen[name] = class
		}
	}
}

// Names that no class has are in the table and, by name, in the JSON.
func TestProfileNamesTheUnknown(t *testing.T) {
	p := newProfile([]tensor.Operation{{Name: "aten::mm", Seconds: 1, Calls: 2},
		{Name: "aten::unheard_of", Seconds: 2, Calls: 3},
		{Name: "aten::unheard_of", Region: tensor.Head, Seconds: 1, Calls: 1}}, 3, 2)
	checkSum(t, p)
	if seconds(p, other) != 3 || seconds(p, idle) != 2 || seconds(p, products) != 1 {
		t.Errorf("%+v", p.Lines)
	}
	raw, err := json.Marshal(Result{Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"aten::unheard_of","class":"other operations","seconds":3,"calls":4}`
	if !strings.Contains(string(raw), want) {
		t.Errorf("%s has no %s", raw, want)
	}
}

// workFolder is a folder with a tiny model and the work that scripts/peers.py would write.
func workFolder(t *testing.T, model string) string {
	t.Helper()
	dir := t.TempDir()
	testfile.Copy(t, dir, filepath.Join(golden.Folder(t, "models"), model))
	ids := func(n, from int) []int32 {
		list := make([]int32, n)
		for i := range list {
			list[i] = int32(5 + (from+7*i)%40)
		}
		return list
	}
	var prompts, rows [][]int32
	var pairs []map[string][]int32
	for i := range 4 {
		prompts, rows = append(prompts, ids(6+i, i)), append(rows, ids(9+i, 2*i))
		pairs = append(pairs, map[string][]int32{"prompt": ids(6+i, i), "chosen": ids(4, i), "rejected": ids(5, 3*i)})
	}
	for name, work := range map[string]any{"prompts.json": prompts, "rows.json": rows, "eval.json": rows,
		"pairs.json": pairs} {
		testfile.WriteJSON(t, filepath.Join(dir, name), work)
	}
	return dir
}

// The kinds of work add up, and leave no operation of libtorch but autograd's own steps without a class.
func TestProfileOfWork(t *testing.T) {
	for _, model := range []string{"gpt2-tiny", "llama-tiny-bf16"} {
		dir := workFolder(t, model)
		for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			for stage, work := range map[string]func() (*Result, error){
				"generate": func() (*Result, error) {
					return Generate(t.Context(),
						GenerateOptions{Model: dir, K: 3, J: 4, New: 5, DType: d, TopP: 0.9, Profile: true})
				},
				"dpo": func() (*Result, error) {
					return DPO(t.Context(), DPOOptions{Model: dir, K: 4, Batch: 4, DType: d, Profile: true})
				},
				"finetune": func() (*Result, error) {
					return FineTune(t.Context(),
						FineTuneOptions{Model: dir, Steps: 2, Batch: 4, Micro: 2, DType: d, Profile: true})
				},
				"evaluate": func() (*Result, error) {
					return Evaluate(EvaluateOptions{Model: dir, N: 3, DType: d, Profile: true})
				},
			} {
				r, err := work()
				if err != nil {
					t.Fatalf("%s of %s in %v: %v", stage, model, d, err)
				}
				checkSum(t, r.Profile)
				for _, o := range r.Profile.Operations {
					if o.Class == other &&
						(strings.HasPrefix(o.Name, "aten::") || strings.HasPrefix(o.Name, "popri::")) {
						t.Errorf("%s of %s in %v: %s has no class", stage, model, d, o.Name)
					}
				}
				for class, does := range map[string]bool{products: true, attention: true, head: true, copies: true,
					golang:    true,
					optimizer: stage == "dpo" || stage == "finetune"} {
					if got := seconds(r.Profile, class); (got > 0) != does {
						t.Errorf("%s of %s in %v: %s took %g s", stage, model, d, class, got)
					}
				}
			}
		}
	}
}
