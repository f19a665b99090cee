package downstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"popri/datasets/clients"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// kept is a fine-tuning in the cache: the parts that do not depend on the other sources of a suite.
type kept struct {
	BestStep     int     `json:"best_step"`
	LearningRate float64 `json:"learning_rate,omitempty"`
	Curve        []Point `json:"curve,omitempty"`
	Scores       []Score `json:"scores"`
	// Weights is the SHA-256 of the weights that were written to [Suite.Small]; "" if they were not.
	Weights string `json:"weights,omitempty"`
}

// cached returns the result of an earlier suite with the same model, texts, population and options, or does the
// fine-tuning and keeps its result. work gets the beginning of the paths of its state: "" without a cache, and for the
// clients' own texts, of which no state is kept. The file's name is an HMAC, under the secret CacheKey, of everything that
// the result depends on except the program itself: a plain hash would let others test guesses about private text. common
// is the part of it that [Suite.commonKey] returns, with the number of a further training or the mark of a validation.
func (u Suite) cached(common string, src Source, work func(state string) (Result, error)) (Result, error) {
	if u.Cache == "" || src.Model != "" { // testing a model takes no longer than identifying it
		return work("")
	}
	key := u.cacheKey(common, src)
	path := filepath.Join(u.Cache, key+".json")
	var k kept
	there, err := atomicfile.ReadJSONIfAny(path, &k)
	if err != nil {
		return Result{}, fmt.Errorf("%w (remove the file to have it made again)", err)
	}
	if there && (!u.keeps(src) || k.Weights != "" && k.Weights == u.weights()) {
		now := time.Now()
		os.Chtimes(path, now, now) // what was used longest ago goes first
		return Result{Key: src.Key, Name: src.Name, Texts: len(src.Texts), BestStep: k.BestStep, Curve: k.Curve,
			LearningRate: k.LearningRate, scores: k.Scores}, nil
	}
	state := filepath.Join(u.Cache, key)
	if src.Key == Private {
		state = ""
	}
	r, err := work(state)
	if err != nil {
		return r, err
	}
	if err := os.MkdirAll(u.Cache, 0o755); err != nil {
		return r, err
	}
	if slices.ContainsFunc(r.Curve, func(p Point) bool { return !numeric.Finite(p.Loss) }) { // JSON has no such number
		return r, nil
	}
	k = kept{BestStep: r.BestStep, LearningRate: r.LearningRate, Curve: r.Curve, Scores: r.scores}
	if u.keeps(src) {
		k.Weights = u.weights()
	}
	b, err := json.Marshal(k)
	if err != nil {
		return r, err
	}
	return r, atomicfile.WriteBytes(path, append(b, '\n'))
}

// weights is the SHA-256 of the weights in [Suite.Small]; "" if there are none.
func (u Suite) weights() string {
	hash, err := atomicfile.SHA256(filepath.Join(u.Small, safetensors.ModelFile))
	if err != nil {
		return ""
	}
	return hash
}

// commonKey is what the keys of all sources have in common; "" without a cache. It reads the whole model.
func (u Suite) commonKey() (string, error) {
	if u.Cache == "" {
		return "", nil
	}
	if len(u.CacheKey) == 0 {
		return "", errors.New("a cache of fine-tunings needs a secret key")
	}
	h := hmac.New(sha256.New, u.CacheKey)
	entries, err := os.ReadDir(u.ModelDir) // sorted by name
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !slices.Contains([]string{".json", ".safetensors", ".txt", ".model"}, ext) {
			continue
		}
		f, err := os.Open(filepath.Join(u.ModelDir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s\n", e.Name())
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	o := u.Options
	o.Worked, o.Trainings = nil, 0
	if o.LoRA != nil { // what the pointer points to
		fmt.Fprintf(h, "\n%+v", *o.LoRA)
		o.LoRA = nil
	}
	fmt.Fprintf(h, "\n%+v\n%s\n%s\n", o, tensor.Arithmetic(), u.Population.TagOfPart(u.CacheKey, clients.Validation, clients.Test))
	for _, l := range u.Labels {
		fmt.Fprintf(h, "label %d %s\n", len(l), l)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (u Suite) cacheKey(common string, src Source) string {
	h := hmac.New(sha256.New, u.CacheKey)
	fmt.Fprintf(h, "%s\n%v\n", common, src.Key == Public)
	for _, t := range src.Texts {
		fmt.Fprintf(h, "%d %s\n", len(t), t)
	}
	for _, l := range src.Labels {
		fmt.Fprintf(h, "label %d %s\n", len(l), l)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
