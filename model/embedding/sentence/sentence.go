// Package sentence reads the folder of a sentence encoder in the form of sentence-transformers: a transformer with its
// tokenizer, and what makes one vector of its states. Other packages run the network.
//
//	prompt, text ─► tokens ─► BERT, RoBERTa and its kin, MPNet or T5's encoder ─► mean or first state ─► dense layers
//	─► unit length
package sentence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/model/safetensors"
	"popri/model/tokenizer"
)

// Folder is an opened encoder. Close releases the mapped weights.
type Folder struct {
	Dir       string
	Config    Config
	MaxTokens int    // longer texts are cut; the template's tokens count
	Prompt    string // goes before each text
	Hash      string // of configuration, tokenizer and weights, for cache keys

	described      described
	pooling        pooling
	after          []module // what follows the pooling
	dim            int
	denseHash      []string // what each dense layer adds to Hash
	tokenizer      *tokenizer.Tokenizer
	prefix, suffix []int32
	files          *safetensors.Model
	names          map[string]string // tensor name in the reference's model to its name in the file
}

// Open reads a folder. A setting that the encoders do not support is refused by name.
func Open(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, names: map[string]string{}}
	if err := f.open(); err != nil {
		if f.files != nil {
			f.files.Close()
		}
		return nil, fmt.Errorf("embedding: %w", err)
	}
	return f, nil
}

func (f *Folder) open() error {
	for _, read := range []func() error{f.readModules, f.readConfig, f.readPrompt, f.readDense, f.readTokenizer} {
		if err := read(); err != nil {
			return err
		}
	}
	if n := f.tokenizer.VocabSize(); n > f.Config.Vocab {
		return fmt.Errorf("%s: the tokenizer has ids up to %d, the model's vocabulary is %d: they do not belong "+
			"together", f.Dir, n-1, f.Config.Vocab)
	}
	f.prefix, f.suffix = f.tokenizer.Template()
	if around := len(f.prefix) + len(f.suffix); f.MaxTokens <= around {
		return fmt.Errorf("%s: max_seq_length %d leaves no room for more than the %d tokens around a text", f.Dir,
			f.MaxTokens, around)
	}
	var err error
	if f.files, err = safetensors.OpenModel(f.Dir); err != nil {
		return err
	}
	for _, name := range f.files.Names() {
		as := name
		for _, prefix := range []string{"bert.", "roberta.", "mpnet."} { // checkpoints of a model with another head
			as = strings.TrimPrefix(as, prefix)
		}
		if !unusedPart(f.Config.Kind, as) {
			f.names[as] = name
		}
	}
	return f.hash()
}

// readJSON reads an optional file; a missing one leaves into unchanged.
func (f *Folder) readJSON(name string, decode func([]byte) error) (found bool, err error) {
	path := filepath.Join(f.Dir, name)
	raw, err := fault.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		if err = decode(exactjson.TrimBOM(raw)); err == nil {
			return true, nil
		}
		err = fmt.Errorf("%s: %w", path, err)
	}
	return true, err
}

func (f *Folder) hash() error {
	sum := sha256.New()
	// The hash of a plain BERT stays what older runs recorded.
	if b, ok := f.described.(*bertConfig); ok {
		fmt.Fprintf(sum, "%+v %d\n", *b, f.MaxTokens)
	} else {
		fmt.Fprintf(sum, "%+v %d\n", f.Config, f.MaxTokens)
	}
	if f.pooling.first || f.Prompt != "" || len(f.denseHash) > 0 {
		fmt.Fprintf(sum, "%v %q %q\n", f.pooling.first, f.Prompt, f.denseHash)
	}
	fmt.Fprintf(sum, "%x\n", sha256.Sum256(f.tokenizer.JSON()))
	for _, path := range f.files.Files() {
		h, err := atomicfile.SHA256(path)
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, h)
	}
	f.Hash = hex.EncodeToString(sum.Sum(nil))[:16]
	return nil
}

// Close unmaps the weights.
func (f *Folder) Close() error { return f.files.Close() }

// Name identifies the encoder: "bert-6x384".
func (f *Folder) Name() string {
	return fmt.Sprintf("%s-%dx%d", f.Config.Kind, f.Config.Layers, f.Config.Hidden)
}

// Dim is the length of the vectors.
func (f *Folder) Dim() int { return f.dim }

// IDs returns the ids of a text for the model, cut to MaxTokens.
func (f *Folder) IDs(text string) []int32 {
	ids := f.tokenizer.Encode(f.Prompt + text)
	ids = ids[:min(len(ids), f.MaxTokens-len(f.prefix)-len(f.suffix))]
	return slices.Concat(f.prefix, ids, f.suffix)
}

// Position returns the row in the table of positions of a token with before others in front, none of them padding.
func (c Config) Position(before int, id int32) int {
	if c.Pad < 0 {
		return before
	}
	if int(id) == c.Pad { // the padding's own text, which the count passes over
		return c.Pad
	}
	return c.Pad + 1 + before
}

func (f *Folder) exists(name string) bool {
	_, err := os.Stat(filepath.Join(f.Dir, name))
	return err == nil
}
