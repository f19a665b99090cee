package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/quote"
	"popri/model/safetensors"
)

// The names of files that other files depend on.
const (
	Config    = "config.json"
	Modules   = "modules.json"
	Tokenizer = "tokenizer.json"
)

var (
	// Settings are the small files that popri reads where a model has them. A missing modules.json changes the vectors,
	// so that it must be known to be absent.
	Settings = []string{Config, "generation_config.json", Tokenizer, "tokenizer_config.json", "chat_template.jinja",
		Modules, "sentence_bert_config.json", "config_sentence_transformers.json"}
	// Pieces are SentencePiece's own files, which do without a tokenizer.json.
	Pieces = []string{"spiece.model", "sentencepiece.bpe.model"}
	// needs are the files that a user has to provide for a role.
	needs = map[Role]string{
		Decoder: "config.json, generation_config.json, tokenizer.json, tokenizer_config.json and the safetensors files",
		Encoder: "modules.json, the folder 1_Pooling, all other JSON files and model.safetensors",
	}
)

// Local reports whether the name of a model's file stays inside the model's folder and is written in the one usual way.
func Local(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && len(name) < 300 &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' || r == ':' || r == 0x7f })
}

// Shards are the weight files that the content of model.safetensors.index.json names.
func Shards(index []byte) ([]string, error) {
	var in struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(exactjson.TrimBOM(index), &in); err != nil {
		return nil, fmt.Errorf("%s: %w", safetensors.ModelIndex, quote.JSON(err))
	}
	names := slices.Compact(slices.Sorted(maps.Values(in.Map)))
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: weight_map is missing or empty", safetensors.ModelIndex)
	}
	for _, name := range names {
		if !Local(name) || path.Ext(name) != ".safetensors" {
			return nil, quote.Errorf("%s: weight_map names the file %q", safetensors.ModelIndex, name)
		}
	}
	return names, nil
}

// ModuleFiles are the files that the modules in the content of modules.json are read from.
func ModuleFiles(content []byte) (all []string, err error) {
	var modules []struct{ Type, Path string }
	if err := json.Unmarshal(exactjson.TrimBOM(content), &modules); err != nil {
		return nil, fmt.Errorf("%s: %w", Modules, quote.JSON(err))
	}
	for i, m := range modules {
		if m.Path != "" && !Local(m.Path) {
			return nil, quote.Errorf("%s: the path of module %d, %q, is outside the folder", Modules, i, m.Path)
		}
		switch kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]; {
		case m.Path == "" || kind == "Normalize": // the transformer itself; no files
		case kind == "Dense":
			all = append(all, m.Path+"/"+Config, m.Path+"/"+safetensors.ModelFile)
		default:
			all = append(all, m.Path+"/"+Config)
		}
	}
	return all, nil
}

// PoolingFile has the settings of the pooling of a model without modules.json.
const PoolingFile = "1_Pooling/" + Config

// missingFiles returns what a snapshot lacks for a role, "" if it is complete. Programs fetch only what they read
// themselves, so the folder that one of them left may be of no use here.
func missingFiles(dir string, role Role) (string, error) {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil
	}
	if !there(Config) {
		return Config, nil
	}
	if !there(Tokenizer) && !slices.ContainsFunc(Pieces, there) {
		return Tokenizer, nil
	}
	if !there(safetensors.ModelFile) {
		names, err := listed(dir, safetensors.ModelIndex, Shards)
		if err != nil {
			return "", err
		}
		if names == nil {
			return safetensors.ModelFile, nil
		}
		for _, name := range names {
			if !there(name) {
				return name, nil
			}
		}
	}
	if role != Encoder {
		return "", nil
	}
	absent := filepath.Join(filepath.Dir(filepath.Dir(dir)), ".no_exist", filepath.Base(dir), Modules)
	if _, err := os.Stat(absent); err != nil && !there(Modules) {
		return Modules, nil
	}
	names, err := listed(dir, Modules, ModuleFiles)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if !there(name) {
			return name, nil
		}
	}
	return "", nil
}

// listed are the files that a file of the folder names, nil if it is not there.
func listed(dir, name string, parse func([]byte) ([]string, error)) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return names, nil
}
