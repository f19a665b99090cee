package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
)

// SpecialFile has names of special tokens too, in folders of older versions of transformers: where tokenizer_config.json has
// no added_tokens_decoder, what it says goes first; else it is not read, as in transformers.
const SpecialFile = "special_tokens_map.json"

// classTokens are the special tokens of transformers' classes of tokenizers, for what the files do not name.
var classTokens = map[string]map[string]string{
	"GPT2Tokenizer":  same("<|endoftext|>", "bos_token", "eos_token", "unk_token"),
	"Qwen2Tokenizer": same("<|endoftext|>", "eos_token", "unk_token", "pad_token"),
	"GPTNeoXTokenizer": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>",
		"pad_token": "<|padding|>"},
	"LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
	"CodeLlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "prefix_token": "▁<PRE>",
		"middle_token": "▁<MID>", "suffix_token": "▁<SUF>", "eot_token": "▁<EOT>", "fill_token": "<FILL_ME>"},
	"GemmaTokenizer": {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>",
		"mask_token": "<mask>"},
	"BertTokenizer": {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]",
		"mask_token": "[MASK]"},
}

// classOf is the class of a model_type, if the files name none; "" has no tokens of its own, and overrides what the files
// name, as qwen2 does.
var classOf = map[string]string{"gpt2": "GPT2Tokenizer", "opt": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer",
	"gpt_neox": "GPTNeoXTokenizer", "gemma2": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer",
	"mistral": "", "phi3": "", "olmo2": "", "granite": ""}

func same(token string, names ...string) map[string]string {
	of := map[string]string{}
	for _, n := range names {
		of[n] = token
	}
	return of
}

// SpecialTokens are the special tokens of a folder by their names (bos_token, …), as transformers 5 has them: of the
// class, of tokenizer_config.json and of [SpecialFile]. Of files that are not there, nothing is read. named says which
// ones the files name themselves, and in which file.
func SpecialTokens(dir string) (tokens, named map[string]string, err error) {
	tokens, named = map[string]string{}, map[string]string{}
	config, err := fields(dir, configName)
	if err != nil {
		return nil, nil, err
	}
	model, err := fields(dir, "config.json")
	if err != nil {
		return nil, nil, err
	}
	var class, kind string
	_ = json.Unmarshal(config["tokenizer_class"], &class) // another type names no class
	_ = json.Unmarshal(model["model_type"], &kind)
	if class == "" {
		_ = json.Unmarshal(model["tokenizer_class"], &class)
	}
	if of, known := classOf[kind]; class == "" || known && (of == "" || kind == "qwen2") {
		class = of
	}
	class = strings.TrimSuffix(class, "Fast")
	var special map[string]json.RawMessage
	if config["added_tokens_decoder"] == nil {
		if special, err = fields(dir, SpecialFile); err != nil {
			return nil, nil, err
		}
	}
	for _, source := range []struct {
		file   string
		fields map[string]json.RawMessage
	}{{configName, config}, {SpecialFile, special}} {
		for _, n := range slices.Sorted(maps.Keys(source.fields)) {
			var token specialName
			switch raw := source.fields[n]; {
			case n == "extra_special_tokens" || n == "model_specific_special_tokens":
				var further map[string]specialName
				if json.Unmarshal(raw, &further) == nil { // else a list, of tokens without names
					for n, token := range further {
						tokens[n] = string(token)
					}
				}
			case !strings.HasSuffix(n, "_token"):
			case string(raw) == "null":
				tokens[n] = "" // and not the class's token
			case string(raw) == "true", string(raw) == "false": // a setting, such as add_bos_token
			case json.Unmarshal(raw, &token) != nil:
				return nil, nil, malformed(filepath.Join(dir, source.file), quote.Sprintf("%s is %s, want a text", n, quote.Raw(raw)))
			case token != "":
				tokens[n], named[n] = string(token), source.file
			}
		}
	}
	for n, token := range classTokens[class] {
		if _, stated := tokens[n]; !stated && (class != "LlamaTokenizer" || !ofBytes(dir)) {
			tokens[n] = token
		}
	}
	maps.DeleteFunc(tokens, func(_, token string) bool { return token == "" })
	return tokens, named, nil
}

// fields reads a file of a folder that holds a JSON object; nil where there is none.
func fields(dir, name string) (of map[string]json.RawMessage, err error) {
	content, err := fault.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(exactjson.TrimBOM(content), &of); err != nil {
		return nil, malformed(filepath.Join(dir, name), quote.JSON(err).Error())
	}
	return of, nil
}

// ofBytes reports whether a folder's tokenizer.json splits bytes, as LLaMA 3's does: its class is not LlamaTokenizer, whatever
// the files name.
func ofBytes(dir string) bool {
	file, err := fields(dir, FileName)
	return err == nil && strings.Contains(string(file["pre_tokenizer"])+string(file["decoder"]), `"ByteLevel"`)
}
