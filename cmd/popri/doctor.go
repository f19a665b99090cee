package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sys/cpu"

	"popri/datasets/clients"
	"popri/datasets/godoc"
	"popri/internal/memory"
	"popri/internal/modelcache"
	"popri/internal/numeric"
	"popri/internal/version"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
)

// demoMemory is the largest memory of the demo, in bytes.
const demoMemory = 4 << 30

// finding is the result of one check of doctor.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // what to do where something is missing or could be better
}

// doctorOptions are the flags of the verb doctor.
type doctorOptions struct {
	flags configFlags
	model string
}

func (a *app) doctor() *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [--model DIR [--preset NAME] [--set a.b=c]…]",
		Short: "Check what this machine has and what is missing",
		Long: `Checks libtorch, GPUs, threads, instructions, bfloat16, memory, and the embedded default's data and weights, and
says how to fix what is missing. The exit code is 1 if the demo would not run.

With --model, says instead how much memory a run with this generator needs in its stages, from the files' headers and the
configuration, and which settings would need less.`,
		Example: "  popri doctor\n  popri doctor --json\n  popri doctor --model llama-8b --preset paper-congress",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.runDoctor(o) },
	}
	cmd.Flags().StringVar(&o.model, "model", "", "model to plan the memory for, as in model.path; reads no weights")
	o.flags.add(cmd)
	return cmd
}

// runDoctor says what is missing or, for a model, what memory it needs.
func (a *app) runDoctor(o doctorOptions) error {
	if o.model == "" {
		return a.examine()
	}
	c, err := o.flags.load()
	if err != nil {
		return err
	}
	c.Model.Path = o.model
	plan, err := planMemory(c)
	if err != nil {
		return err
	}
	return a.emit(plan, plan.print)
}

// examine looks for everything that the demo needs.
func (a *app) examine() error {
	findings := []finding{findLibtorch(), findDevice(),
		{Name: "threads", OK: true, Found: fmt.Sprintf("%d of %d CPUs", tensor.Threads(), runtime.NumCPU())},
		{Name: "instructions", OK: true, Found: "popri's own kernels: " + tensor.Kernels()},
		findBFloat16(), findMemory(), findSource(), findWeights("generator weights", shipped.Generator),
		findWeights("small model's weights", shipped.Device)}
	findings = append(findings, numeric.Map(modelcache.Sources, findFetched)...)
	missing := len(numeric.Where(len(findings), func(i int) bool { return !findings[i].OK }))
	err := a.emit(map[string]any{"ok": missing == 0, "findings": findings}, func(w io.Writer) {
		for _, f := range findings {
			state := "ok"
			if !f.OK {
				state = "MISSING"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, state, f.Found)
			if f.Advice != "" {
				fmt.Fprintf(w, "\t\t→ %s\n", f.Advice)
			}
		}
	})
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d of %d things are missing", missing, len(findings))
	}
	return err
}

// findLibtorch multiplies two matrices to verify that the library is loaded and works.
func findLibtorch() finding {
	f := finding{Name: "libtorch", Found: "version " + version.Libtorch()}
	err := tensor.Run(func(s *tensor.Scope) error {
		x := s.FromFloat32([]float32{1, 2, 3, 4}, 2, 2)
		if got := s.Float32s(s.MatMul(x, x)); got[3] != 22 {
			return fmt.Errorf("a matrix product is wrong: %v", got)
		}
		return nil
	})
	if f.OK = err == nil; err != nil {
		f.Found += ": " + err.Error()
		f.Advice = "remove the cache folder and run make setup again"
	}
	return f
}

// findDevice names the device of the models, and says what a GPU would need.
func findDevice() finding {
	f := finding{Name: "device", OK: true, Found: tensor.DefaultDevice().String()}
	switch n := tensor.CUDADevices(); {
	case !tensor.CUDALibrary():
		f.Found += "; libtorch has no CUDA"
		f.Advice = "for a GPU: LIBTORCH=DIR make build, with a libtorch that has CUDA"
	case n == 0:
		f.Found += "; libtorch has CUDA and sees no GPU"
	default:
		f.Found += fmt.Sprintf("; GPUs: %d, cuDNN: %t", n, tensor.CuDNN())
	}
	return f
}

func findBFloat16() finding {
	f := finding{Name: "bfloat16", OK: true}
	if d := tensor.DefaultDevice(); d != tensor.CPU {
		f.Found = "on " + d.String()
		f.Advice = "model.dtype: auto takes it"
		return f
	}
	var has []string
	if cpu.X86.HasAVX512BF16 {
		has = append(has, "AVX-512 BF16")
	}
	if cpu.X86.HasAMXBF16 {
		has = append(has, "AMX")
	}
	f.Advice = "model.dtype: auto takes float32"
	switch {
	case tensor.FastBFloat16():
		f.Found = "fast: " + joined(has)
		f.Advice = "model.dtype: auto takes it"
	case len(has) > 0:
		f.Found = "slower than float32: " + joined(has) + " on an Intel CPU without AMX"
	default:
		f.Found = "slow: the CPU has neither AVX-512 BF16 nor AMX"
	}
	return f
}

func findMemory() finding {
	f := finding{Name: "memory", OK: true}
	total, free, err := machineMemory()
	if err != nil {
		f.Found = "unknown: " + err.Error()
		return f
	}
	f.Found = fmt.Sprintf("%s, %s of it available", humanize.IBytes(total), humanize.IBytes(free))
	if free < demoMemory {
		f.Advice = fmt.Sprintf("the demo stays under %s; lower generate.batch_tokens and dpo.micro_pairs if it "+
			"does not fit", humanize.IBytes(demoMemory))
	}
	return f
}

// machineMemory returns the machine's memory and its available part, in bytes, within the limit of a container.
func machineMemory() (total, available uint64, err error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	total, available = uint64(memory.Field(info, "MemTotal:")), uint64(memory.Field(info, "MemAvailable:"))
	number := func(name string) (uint64, bool) {
		b, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", name))
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		return n, err == nil // "max" is no limit
	}
	if limit, ok := number("memory.max"); ok && limit < total {
		total = limit
		if used, ok := number("memory.current"); ok {
			available = min(available, limit-min(limit, used))
		}
	}
	return total, available, nil
}

// findSource looks for the embedded default's text.
func findSource() finding {
	f := finding{Name: "Go's source"}
	corpus, err := godoc.Load("")
	if err != nil {
		f.Found = err.Error()
		f.Advice = "the demo needs it; runs on other data (data.private, data.public) do not"
		return f
	}
	f.OK = true
	f.Found = fmt.Sprintf("%s in %s: %s", corpus.GoVersion, corpus.Root, clients.Count(corpus.Private.Clients))
	return f
}

// findFetched looks for a model that the set-up fetches where it is asked for; nothing else needs it.
func findFetched(s modelcache.Source) finding {
	f := finding{Name: s.Title, OK: true}
	dir, err := s.Installed()
	if f.Found = "in " + dir; err != nil {
		f.Found = "not fetched"
		f.Advice = s.Advice()
	}
	return f
}

// findWeights loads a model that comes with the program.
func findWeights(what, name string) finding {
	f := finding{Name: what, Advice: "the cache folder must be writable: set POPRI_CACHE to a writable folder"}
	dir, err := shipped.Dir(name)
	if err != nil {
		f.Found = err.Error()
		return f
	}
	m, err := lm.Load(dir, lm.Options{})
	if err != nil {
		f.Found = err.Error()
		f.Advice = "remove " + dir + ": the next run unpacks it again"
		return f
	}
	defer m.Free()
	return finding{Name: what, OK: true, Found: fmt.Sprintf("%s parameters in %s", humanize.Comma(m.Parameters()), dir)}
}
