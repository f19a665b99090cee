package downstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"popri/lm"
	"popri/safetensors"
)

// A training writes its state at a measurement, at most once in this time: a model that trains in seconds writes none.
var checkpointEvery = time.Minute

// checkpoint is the file with the state of a training; nil keeps none.
type checkpoint struct {
	path string
	last time.Time
}

// resume reads the state of an earlier training of the same kind, if there is one. The file's name says of which kind it
// is, so the file holds no settings.
func (t *training) resume(path string) (*checkpoint, error) {
	if path == "" {
		return nil, nil
	}
	c := &checkpoint{path, time.Now()}
	f, err := safetensors.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := t.read(f); err != nil {
		return nil, fmt.Errorf("downstream: %w (remove the file to begin this training anew)", err)
	}
	return c, nil
}

func (t *training) read(f *safetensors.File) error {
	if err := json.Unmarshal([]byte(f.Metadata()["curve"]), &t.curve); err != nil || len(t.curve) == 0 {
		return fmt.Errorf("%s: the measurements cannot be read", f.Path())
	}
	best, err := strconv.Atoi(f.Metadata()["best"])
	if err != nil || best < 0 || best >= len(t.curve) {
		return fmt.Errorf("%s: the best measurement is not one of the %d", f.Path(), len(t.curve))
	}
	counters, err := t.optimizer.ReadMetadata(f)
	if err != nil {
		return err
	}
	if counters.Steps > t.steps || counters.Steps != t.curve[len(t.curve)-1].Step {
		return fmt.Errorf("%s: %d updates of %d, the last measurement after %d", f.Path(), counters.Steps, t.steps,
			t.curve[len(t.curve)-1].Step)
	}
	x := t.optimizer.State().Clone()
	if err := x.Read(f, "now.", true); err != nil {
		return err
	}
	kept := lm.State{Params: x.Params}.Clone()
	if err := kept.Read(f, "best.", true); err != nil {
		return err
	}
	t.optimizer.SetState(x)
	t.step, t.best, t.kept = counters.Steps, t.curve[best], kept.Params
	if t.Progress != nil {
		t.Progress(t.curve[len(t.curve)-1])
	}
	return nil
}

// write stores the state.
func (c *checkpoint) write(t *training) error {
	if c == nil || time.Since(c.last) < checkpointEvery {
		return nil
	}
	curve, err := json.Marshal(t.curve)
	if err != nil {
		return err
	}
	metadata := t.optimizer.Metadata(lm.Counters{Steps: t.step, Position: t.step})
	metadata["curve"], metadata["best"] = string(curve), strconv.Itoa(slices.Index(t.curve, t.best))
	list := append(t.optimizer.State().Tensors("now.", true), lm.State{Params: t.kept}.Tensors("best.", true)...)
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return err
	}
	if err := safetensors.Write(c.path, list, metadata); err != nil {
		return err
	}
	c.last = time.Now()
	return nil
}

// remove deletes the state of a training that is done.
func (c *checkpoint) remove() {
	if c != nil {
		os.Remove(c.path)
	}
}
