package lm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/model/mixture"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// Load reads a model from a Hugging Face directory: config.json and safetensors, single or sharded. Every tensor that
// the architecture needs must exist, be finite and have the shape that config.json states, and no other tensor may
// exist. The files are mapped, and each tensor is copied once. It refuses a folder with a table (package mixture).
func Load(dir string, o Options) (*Model, error) {
	if err := mixture.Refuse(dir); err != nil {
		return nil, err
	}
	return LoadBase(dir, o)
}

// LoadBase is [Load] for a caller that applies the folder's table, if there is one.
func LoadBase(dir string, o Options) (*Model, error) {
	config, err := readConfig(dir)
	if err != nil {
		return nil, cmp.Or(Check(dir), err)
	}
	return load(dir, config, o, nil)
}

// Check returns all that is wrong with the config.json and the weights' files of a folder, without reading the weights.
func Check(dir string) error {
	_, err := readConfig(dir)
	files, missing := safetensors.OpenModel(dir)
	if missing != nil {
		return errors.Join(err, fmt.Errorf("lm: %w", missing))
	}
	files.Close()
	return err
}

// load is [Load] with the given configuration. A tensor that the folder lacks is what missing returns, if it is not
// nil.
func load(dir string, config Config, o Options,
	missing func(s *tensor.Scope, name string, shape []int64) (tensor.Tensor, bool)) (*Model, error) {
	stamps, err := stampsOf(dir)
	if err != nil {
		return nil, err
	}
	c, err := openFolder(dir, config)
	if err != nil {
		return nil, err
	}
	defer c.close()
	read := map[string]bool{}
	m, err := assemble(c.config, o, func(s *tensor.Scope, name string, shape []int64) (tensor.Tensor, error) {
		if _, ok := c.tensors[name]; !ok && missing != nil {
			if made, ok := missing(s, name, shape); ok {
				return made, nil
			}
		}
		read[name] = true
		return c.read(s, name, shape)
	})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(c.tensors, func(name string, _ safetensors.Tensor) bool { return read[name] })
	if len(c.tensors) > 0 {
		names := slices.Sorted(maps.Keys(c.tensors))
		m.Free()
		return nil, fmt.Errorf("lm: %s: the checkpoint holds tensors that a %s model with this config.json does "+
			"not have: %s", dir, config.Type, strings.Join(names[:min(5, len(names))], ", "))
	}
	m.files = origin{dir, stamps}
	return m, nil
}

// Reload reads the named parameters again from the folder that the model was loaded from, which undoes what was done to
// them since. The files must not have changed. After an error, the parameters are in no known state.
func (m *Model) Reload(names ...string) error {
	m.whole("Reload")
	if m.files.dir == "" {
		return errors.New("lm: Reload: the model was not loaded from a folder")
	}
	stamps, err := stampsOf(m.files.dir)
	if err != nil {
		return err
	}
	if !maps.Equal(stamps, m.files.stamps) {
		return fmt.Errorf("lm: %s: the weights' files changed since the model was loaded", m.files.dir)
	}
	c, err := openFolder(m.files.dir, m.Config)
	if err != nil {
		return err
	}
	defer c.close()
	m.unpack()
	return tensor.Run(func(s *tensor.Scope) (err error) {
		for _, name := range names {
			s.Do(func() {
				var stored tensor.Tensor
				if stored, err = c.read(s, name, m.params[name].Shape()); err == nil {
					s.Copy_(m.params[name], stored)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// folder is the open files of a model.
type folder struct {
	dir     string
	config  Config // with the head that the files have
	files   *safetensors.Model
	tensors map[string]safetensors.Tensor // by the names of the model's parameters
	untied  bool                          // the files have a head of their own, and the configuration ties it
}

func openFolder(dir string, config Config) (*folder, error) {
	files, err := safetensors.OpenModel(dir)
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	c := &folder{dir: dir, config: config, files: files, tensors: map[string]safetensors.Tensor{}}
	for _, name := range files.Names() {
		t, _ := files.Tensor(name)
		if as := config.parameter(name); as != "" {
			c.tensors[as] = t
		}
	}
	c.untied = config.TiedHead && c.ownHead()
	if c.config.TiedHead = config.TiedHead && !c.untied; c.config.TiedHead {
		delete(c.tensors, headName) // a copy of the embedding
	}
	return c, nil
}

// ownHead reports whether the files hold an output projection that is not the token embedding. As in transformers, it counts
// whatever tie_word_embeddings says.
func (c *folder) ownHead() bool {
	head, ok := c.tensors[headName]
	if !ok {
		return false
	}
	for _, name := range []string{"model.embed_tokens.weight", "transformer.wte.weight", "gpt_neox.embed_in.weight",
		"model.decoder.embed_tokens.weight"} {
		if tokens, ok := c.tensors[name]; ok {
			return head.DType != tokens.DType || !bytes.Equal(head.Data, tokens.Data)
		}
	}
	return false
}

func (c *folder) close() { c.files.Close() }

// read returns a stored tensor, which is valid while the files are open.
func (c *folder) read(s *tensor.Scope, name string, shape []int64) (tensor.Tensor, error) {
	t, ok := c.tensors[name]
	if !ok {
		return tensor.Tensor{}, fmt.Errorf("lm: %s: tensor %s is missing", c.dir, name)
	}
	if !slices.Equal(t.Shape, shape) {
		return tensor.Tensor{}, fmt.Errorf("lm: %s: tensor %s has shape %v, config.json makes it %v", c.dir, name, t.Shape, shape)
	}
	types := map[safetensors.DType]tensor.DType{safetensors.F32: tensor.Float32,
		safetensors.F16: tensor.Float16, safetensors.BF16: tensor.BFloat16, safetensors.F64: tensor.Float64}
	d, ok := types[t.DType]
	if !ok {
		return tensor.Tensor{}, fmt.Errorf("lm: %s: tensor %s has the type %s, weights are floating point", c.dir, name, t.DType)
	}
	x := s.Borrow(d, t.Data, shape...)
	if !s.Finite(x) {
		return tensor.Tensor{}, fmt.Errorf("lm: %s: %w", c.dir, t.CheckFinite())
	}
	return x, nil
}

// origin is the folder that a model was loaded from; "" of one that was made.
type origin struct {
	dir    string
	stamps map[string]stamp // of the weights' files, by name
}

// stamp is what a file's replacement changes.
type stamp struct {
	size     int64
	modified time.Time
}

// stampsOf are the stamps of the weights' files in dir.
func stampsOf(dir string) (map[string]stamp, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	out := map[string]stamp{}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".safetensors" {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("lm: %w", err)
		}
		out[e.Name()] = stamp{info.Size(), info.ModTime()}
	}
	return out, nil
}
