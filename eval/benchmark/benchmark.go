package benchmark

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"popri/internal/bom"
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
}

// measure times f, which returns what it worked on.
func measure(stage, dtype, unit string, f func() (items int, err error)) (*Result, error) {
	begun := time.Now()
	items, err := f()
	if err != nil {
		return nil, err
	}
	seconds := time.Since(begun).Seconds()
	return &Result{Stage: stage, Threads: tensor.Threads(), DType: dtype, Device: tensor.DefaultDevice().String(),
		Seconds: seconds, Items: items, Unit: unit, Rate: float64(items) / seconds, Peak: memory.Peak()}, nil
}

// readJSON reads one of the benchmark's input files.
func readJSON(dir, name string, into any) error {
	path := filepath.Join(dir, name)
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w (scripts/peers.py work writes it)", err)
	}
	if err := json.Unmarshal(bom.Trim(raw), into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// inProducts is the number of weights that a token is multiplied with: of the projections, and of the head where it is
// scored.
func inProducts(m *lm.Model) (projections, head int64) {
	for _, l := range m.Linears() {
		projections += l.In * l.Out
	}
	return projections, int64(m.Config.Vocab) * int64(m.Config.Hidden)
}
