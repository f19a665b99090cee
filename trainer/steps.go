package trainer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"popri/dpo"
	"popri/internal/atomicfile"
	"popri/lora"
)

// A checkpoint inside a round is a folder step-NNNNN with adapters, optimizer and the metrics so far. It appears under
// its name only when it is whole.

func (t *Trainer) saveStep(dir string, steps []dpo.Metrics) error {
	name := filepath.Join(dir, fmt.Sprintf("step-%05d", len(steps)))
	tmp := filepath.Join(dir, atomicfile.TempPrefix+"step")
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := t.adapter.Save(tmp); err != nil {
		return err
	}
	if err := t.dpo.Save(filepath.Join(tmp, optimizerFile)); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(tmp, "steps.json"), steps); err != nil {
		return err
	}
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return err
	}
	if len(steps) > 1 {
		return os.RemoveAll(filepath.Join(dir, fmt.Sprintf("step-%05d", len(steps)-1)))
	}
	return nil
}

// resumeSteps restores the newest checkpoint inside the round and returns the metrics of the steps it holds.
func (t *Trainer) resumeSteps(dir string) ([]dpo.Metrics, error) {
	found, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	sort.Strings(found)
	newest := found[len(found)-1]
	b, err := os.ReadFile(filepath.Join(newest, "steps.json"))
	if err != nil {
		return nil, err
	}
	var steps []dpo.Metrics
	if err := json.Unmarshal(b, &steps); err != nil {
		return nil, fmt.Errorf("trainer: %s: %w", newest, err)
	}
	t.Close()
	if t.adapter, err = lora.Load(newest, t.Model); err != nil {
		return nil, err
	}
	return steps, t.newDPO(filepath.Join(newest, optimizerFile), true)
}

func removeSteps(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := os.RemoveAll(f); err != nil {
			return err
		}
	}
	return nil
}
