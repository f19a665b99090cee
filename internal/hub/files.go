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

	"popri/internal/atomicfile"
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
	// Files are patterns of the files that popri reads where a model has them: settings, tokenizer, weights, and the
	// modules of an encoder.
	Files = []string{Config, "generation_config.json", Tokenizer, "tokenizer_config.json", "chat_template.jinja",
		"additional_chat_templates/*.jinja", "spiece.model", "sentencepiece.bpe.model", "model*.safetensors", safetensors.ModelIndex, Modules,
		"sentence_bert_config.json", "config_sentence_transformers.json", "[0-9]_*/" + Config, "[0-9]_*/" + safetensors.ModelFile}
	// pieces are SentencePiece's own files, which do without a tokenizer.json.
	pieces = []string{"spiece.model", "sentencepiece.bpe.model"}
	// needs are the files that a user has to copy for a role.
	needs = map[Role]string{
		Decoder: "config.json, generation_config.json, tokenizer.json, tokenizer_config.json and the safetensors files",
		Encoder: "modules.json, the folder 1_Pooling, all other JSON files and model.safetensors",
	}
)

// Complete checks a snapshot whose [Files] were fetched. It notes in the cache that a model has no modules.json, since a
// file that is not there and a file that nobody has fetched are different things.
func Complete(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, Modules)); errors.Is(err, fs.ErrNotExist) {
		marker := absent(dir)
		if err := os.MkdirAll(filepath.Dir(marker), 0o755); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(marker, nil); err != nil {
			return err
		}
	}
	missing, err := missingFiles(dir, Encoder)
	switch {
	case err != nil || missing == "":
		return err
	case missing == Tokenizer:
		return fmt.Errorf("the model has no %s; in Python, transformers.AutoTokenizer.from_pretrained(NAME).save_pretrained(DIR) "+
			"writes one", missing)
	case missing == safetensors.ModelFile:
		return fmt.Errorf("the model has no %s, and popri reads no other weights; the hub's own conversions of other models are "+
			"branches such as refs/pr/1 (--revision)", missing)
	}
	return fmt.Errorf("%s has no %s", dir, missing)
}

// absent is the marker of a model without modules.json, as the hub's programs have it.
func absent(dir string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(dir)), ".no_exist", filepath.Base(dir), Modules)
}

// local reports whether the name of a model's file stays inside the model's folder and is written in the one usual way.
func local(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && len(name) < 300 &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' || r == ':' || r == 0x7f })
}

// shards are the weight files that the content of model.safetensors.index.json names.
func shards(index []byte) ([]string, error) {
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
		if !local(name) || path.Ext(name) != ".safetensors" {
			return nil, quote.Errorf("%s: weight_map names the file %q", safetensors.ModelIndex, name)
		}
	}
	return names, nil
}

// moduleFiles are the files that the modules in the content of modules.json are read from.
func moduleFiles(content []byte) (all []string, err error) {
	var modules []struct{ Type, Path string }
	if err := json.Unmarshal(exactjson.TrimBOM(content), &modules); err != nil {
		return nil, fmt.Errorf("%s: %w", Modules, quote.JSON(err))
	}
	for i, m := range modules {
		if m.Path != "" && !local(m.Path) {
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
	if !there(Tokenizer) && !slices.ContainsFunc(pieces, there) {
		return Tokenizer, nil
	}
	if !there(safetensors.ModelFile) {
		names, err := listed(dir, safetensors.ModelIndex, shards)
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
	if _, err := os.Stat(absent(dir)); err != nil && !there(Modules) {
		return Modules, nil
	}
	names, err := listed(dir, Modules, moduleFiles)
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
