package run

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"popri/configs"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling/vllm"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

// llamaFolder writes a small LLaMA of random weights, with heads as wide as vLLM's CPU kernels need them and the
// tokenizer of another model.
func llamaFolder(t *testing.T, other string) string {
	t.Helper()
	tok := testmodel.Tokenizer(t, other)
	eos, _ := tok.EOS()
	m, err := lm.New(lm.Config{Type: "llama", Vocab: tok.VocabSize(), Context: 128, Hidden: 64, Layers: 2, Heads: 2,
		KVHeads: 1, Inner: 128, NormEps: 1e-5, EOS: []int32{eos}, ScaleAttn: true, Rotary: lm.Rotary{Theta: 10000}},
		lm.Options{Weights: tensor.Float32, Compute: tensor.Float32}, rand.New(rand.NewPCG(5, 5)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	dir := testfile.Folder(t, filepath.Join(t.TempDir(), "llama"))
	if err := tok.Save(filepath.Join(dir, tokenizer.FileName)); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(dir, safetensors.F32); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serveVLLM starts vLLM on a port and returns what kills it with its children.
func serveVLLM(t *testing.T, python, dir string, port int) (kill func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "vllm.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-m", "vllm.entrypoints.cli.main", "serve", dir, "--host", "127.0.0.1", "--port",
		fmt.Sprint(port), "--served-model-name", "base", "--enable-lora", "--max-lora-rank", "8", "--max-loras", "1",
		"--dtype",
		"float32",
		"--max-model-len", "128", "--max-num-seqs", "32", "--enforce-eager",
		"--data-parallel-size", "2", "--api-server-count", "1")
	cmd.Env = append(os.Environ(), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True", "VLLM_CPU_KVCACHE_SPACE=1",
		"HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1",
		// A busy machine compiles for minutes, and vLLM takes that for a failure.
		"TORCHDYNAMO_DISABLE=1", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=1800")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
			log.Close()
			if t.Failed() {
				b, _ := os.ReadFile(log.Name())
				t.Logf("vLLM: %s", b[max(0, len(b)-3000):])
			}
		})
	}
	t.Cleanup(kill)
	return kill
}

// TestSamplesOnVLLM: the rounds of a run on a vLLM server that is killed in the middle of a round and started again. Two
// engines draw behind its address.
func TestSamplesOnVLLM(t *testing.T) {
	python := enginePython(t, "vllm")
	w := testworld.Shared(t)
	c := w.Config
	c.Model.Path = llamaFolder(t, w.Generator)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	c.Generate.Engine, c.Optimizer.LearningRate = "vllm:"+url, 1e-2
	begun := time.Now()
	kill := serveVLLM(t, python, c.Model.Path, port)
	for {
		if resp, err := http.Get(url + "/health"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Since(begun) > 20*time.Minute {
			t.Fatal("vLLM does not start")
		}
		time.Sleep(time.Second)
	}
	t.Logf("vLLM started in %v", time.Since(begun).Round(time.Second))
	var proofs []vllm.Proof
	var again sync.Once
	dir := t.TempDir()
	o := Options{Config: c, Dir: dir, Events: rounds.Events{
		Log: func(event string, _ int, v any) {
			if event == "engine" {
				proofs = append(proofs, v.(vllm.Proof))
				t.Logf("%+v", v)
			}
		},
		Progress: func(s rounds.Stage, done, total int) {
			if s.Name == "generate" && s.Round == 2 && done < total {
				again.Do(func() {
					kill()
					t.Logf("killed after %d of %d samples", done, total)
					serveVLLM(t, python, c.Model.Path, port)
				})
			}
		}}}
	mustTrain(t, o)
	if len(proofs) != 4 { // two rounds, one of them twice, and the synthetic set
		t.Errorf("%d proofs", len(proofs))
	}
	for i, p := range proofs {
		if p.Distance > 1e-3 || i > 0 && !(p.Effect > 1e-3 && p.Share > 0.95 && p.Share < 1.05) {
			t.Errorf("proof %d is %+v", i, p)
		}
	}
	for round := 1; round <= c.Trainer.Rounds; round++ {
		checkDrawn(t, c, filepath.Join(rundir.Round(dir, round), rundir.Samples))
	}
	product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
	if len(product) != c.Synthetic.Texts {
		t.Errorf("%d texts in the synthetic set", len(product))
	}
}

// checkDrawn fails the test unless the samples of a round are all there and differ.
func checkDrawn(t *testing.T, c configs.Config, file string) {
	t.Helper()
	drawn := samplesIn(t, file)
	if len(drawn) != c.Generate.Prompts*c.Generate.Samples {
		t.Fatalf("%s: %d samples", file, len(drawn))
	}
	texts := map[string]bool{}
	for _, row := range drawn {
		texts[row.Text] = true
		if len(row.IDs) == 0 {
			t.Errorf("%s: an empty sample of prompt %d", file, row.Prompt)
		}
	}
	if len(texts) < len(drawn)*9/10 {
		t.Errorf("%s: %d of %d samples differ: seeds are used twice", file, len(texts), len(drawn))
	}
}
