package benchmark

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/memory"
	"popri/model/lm"
	"popri/model/tensor"
)

// Result is one measurement.
type Result struct {
	Stage   string  `json:"stage"`
	Threads int     `json:"threads"`
	DType   string  `json:"dtype"`
	Device  string  `json:"device"`
	Seconds float64 `json:"seconds"`
	Items   int     `json:"items"`
	Unit    string  `json:"unit"`            // what Items counts
	Rate    float64 `json:"rate"`            // items a second
	Peak    int64   `json:"peak_bytes"`      // largest resident size of the process so far, loading included
	Flops   float64 `json:"flops,omitempty"` // floating-point operations of the matrix products, where they are counted
	// Profile is where the time went, if asked for. Recording it costs a few percent of the rate.
	Profile *Profile `json:"profile,omitempty"`
}

// measure times f, which returns what it worked on, and says where its time went if profiled.
func measure(stage, dtype, unit string, profiled bool, f func() (items int, err error)) (*Result, error) {
	var recorded []tensor.Operation
	var items int
	work := func() (err error) {
		items, err = f()
		return err
	}
	run := work
	if profiled { // whose clocks are read within these, so that no thread is busy for longer than the whole
		run = func() (err error) {
			recorded, err = tensor.Record(work)
			return err
		}
	}
	begun, used := time.Now(), processorTime()
	err := run()
	seconds, cpu := time.Since(begun).Seconds(), processorTime()-used
	if err != nil {
		return nil, err
	}
	var profile *Profile
	if profiled {
		profile = newProfile(recorded, seconds, tensor.Threads())
		profile.CPU = cpu
	}
	return &Result{Stage: stage, Threads: tensor.Threads(), DType: dtype, Device: tensor.DefaultDevice().String(),
		Profile: profile, Seconds: seconds, Items: items, Unit: unit, Rate: float64(items) / seconds,
		Peak: memory.Peak()}, nil
}

// measureAgain measures f after it has been called once, which also fetches memory.
func measureAgain(stage, dtype, unit string, profiled bool, f func() (items int, err error)) (*Result, error) {
	if _, err := f(); err != nil {
		return nil, err
	}
	return measure(stage, dtype, unit, profiled, f)
}

// readJSON reads one of the benchmark's input files.
func readJSON(dir, name string, into any) error {
	path := filepath.Join(dir, name)
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w (scripts/peers.py work writes it)", err)
	}
	if err := json.Unmarshal(exactjson.TrimBOM(raw), into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readRows reads the model in a folder and rows of one of its files with the given number of tokens.
func readRows(dir, name string, compute tensor.DType) (m *lm.Model, rows []lm.Row, tokens int, err error) {
	var work [][]int32
	if err := readJSON(dir, name, &work); err != nil {
		return nil, nil, 0, fault.User(err)
	}
	if m, err = lm.Load(dir, lm.Options{Compute: compute}); err != nil {
		return nil, nil, 0, fault.User(err)
	}
	for i, ids := range work {
		if err := m.CheckTokens(ids); err != nil {
			m.Free()
			return nil, nil, 0, fault.Userf("%s: row %d: %w", name, i, err)
		}
		rows, tokens = append(rows, lm.Row{Tokens: ids}), tokens+len(ids)
	}
	return m, rows, tokens, nil
}

// inProducts is the number of weights that a token is multiplied with: of the projections, and of the head where it is
// scored.
func inProducts(m *lm.Model) (projections, head int64) {
	for _, l := range m.Linears() {
		projections += l.In * l.Out
	}
	return projections, int64(m.Config.Vocab) * int64(m.Config.Hidden)
}
