package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/numeric"
)

// The names that model folders use.
const (
	ModelFile  = "model.safetensors"
	ModelIndex = "model.safetensors.index.json"
)

// Model is the weights of a model folder, in one file or several.
type Model struct {
	dir    string
	shards []*File
	where  map[string]*File
	names  []string
}

// OpenModel opens the weights of a model folder: model.safetensors, or if that is missing, the shards that
// model.safetensors.index.json lists. Every tensor of the index must be in the shard that it names.
func OpenModel(dir string) (*Model, error) {
	m := &Model{dir: dir, where: map[string]*File{}}
	single := filepath.Join(dir, ModelFile)
	f, err := Open(single)
	switch {
	case err == nil:
		m.shards = []*File{f}
		for _, name := range f.Names() {
			m.where[name] = f
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := m.openShards(); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	default:
		return nil, err
	}
	m.names = slices.Sorted(maps.Keys(m.where))
	return m, nil
}

func (m *Model) openShards() error {
	path := filepath.Join(m.dir, ModelIndex)
	content, err := fault.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("safetensors: %s holds neither %s nor %s: %w", m.dir, ModelFile, ModelIndex, fs.ErrNotExist)
	} else if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(exactjson.TrimBOM(content), &index); err != nil {
		return &FormatError{Path: path, Problem: err.Error()}
	}
	if len(index.WeightMap) == 0 {
		return &FormatError{Path: path, Problem: "weight_map is missing or empty"}
	}
	open := map[string]*File{}
	for _, name := range slices.Sorted(maps.Keys(index.WeightMap)) {
		shard := index.WeightMap[name]
		f := open[shard]
		if f == nil {
			if !filepath.IsLocal(shard) {
				return &FormatError{Path: path, Tensor: name, Problem: fmt.Sprintf("shard %q is outside the folder", shard)}
			}
			f, err = Open(filepath.Join(m.dir, shard))
			if errors.Is(err, fs.ErrNotExist) {
				return &FormatError{Path: path, Tensor: name, Problem: fmt.Sprintf("its shard %s is missing", shard)}
			} else if err != nil {
				return err
			}
			open[shard] = f
			m.shards = append(m.shards, f)
		}
		if _, ok := f.Tensor(name); !ok {
			return &FormatError{Path: path, Tensor: name, Problem: fmt.Sprintf("is not in %s, where the index says it is", shard)}
		}
		m.where[name] = f
	}
	return nil
}

// Names returns the names of all tensors in ascending order. The slice is shared and must not be changed.
func (m *Model) Names() []string { return m.names }

// Tensor returns the tensor of that name. Its Data stays valid until Close.
func (m *Model) Tensor(name string) (Tensor, bool) {
	f, ok := m.where[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensor(name)
}

// Files returns the paths of the weight files, in the order of their first tensor's name.
func (m *Model) Files() []string { return numeric.Map(m.shards, (*File).Path) }

// Close unmaps all files.
func (m *Model) Close() error {
	err := errors.Join(numeric.Map(m.shards, (*File).Close)...)
	m.where, m.names = nil, nil
	return err
}
