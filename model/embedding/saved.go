package embedding

import (
	"encoding/json"
	"fmt"

	"popri/internal/numeric"
	"popri/model/safetensors"
)

// The kinds of encoders that [Save] writes, and the metadata keys of their files.
const (
	savedLatent  = "latent"
	savedHashing = "hashing"

	savedKind   = "popri.encoder"
	savedConfig = "popri.config"
	savedKey    = "popri.key"
)

// Save writes an encoder that was fitted to public text to a file, so that another machine embeds exactly as this one
// does without fitting it again: fitted twice on different processors, its last digits may differ. It holds no private
// data. Encoders with weights of their own are an error: they have a folder already.
func Save(path string, e Encoder) error {
	var kind string
	var config any
	var tensors []safetensors.Tensor
	vector := func(name string, data []float32) {
		if len(data) > 0 {
			tensors = append(tensors, safetensors.FromFloat32(name, []int64{int64(len(data))}, data))
		}
	}
	switch e := e.(type) {
	case *Latent:
		terms := numeric.Convert[int64](e.term)
		kind, config = savedLatent, e.config
		tensors = append(tensors, safetensors.FromInt64("term", []int64{int64(len(terms))}, terms))
		vector("idf", e.idf)
		vector("basis", e.basis)
		vector("mean", e.mean)
	case *Hashing:
		// Earlier versions could have other weights of n-grams, vectors that are not centred, and other seeds.
		kind, config = savedHashing, json.RawMessage(fmt.Sprintf(
			`{"Dim":%d,"GramWeight":1,"Uncentered":false,"Seed":0}`, e.config.Dim))
		vector("idf", e.idf)
		vector("mean", e.mean)
	default:
		return fmt.Errorf("embedding: %s has a folder of its own and is not saved", e.Name())
	}
	settings, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("embedding: %w", err)
	}
	return safetensors.Write(path, tensors,
		map[string]string{savedKind: kind, savedConfig: string(settings), savedKey: Key(e)})
}

// LoadSaved reads an encoder that [Save] wrote. It has the [Key] of the encoder that was saved; a file of another
// content is an error.
func LoadSaved(path string) (Encoder, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bad := func(format string, args ...any) error {
		return &safetensors.FormatError{Path: path, Problem: fmt.Sprintf(format, args...)}
	}
	vector := func(name string, length int) []float32 {
		t, ok := f.Tensor(name)
		if !ok && length == 0 {
			return nil
		}
		data, wrong := t.Float32s()
		if !ok || wrong != nil || len(data) != length {
			err = bad("tensor %q does not have %d values", name, length)
			return nil
		}
		if wrong := t.CheckFinite(); wrong != nil {
			err = bad("%v", wrong)
		}
		return data
	}
	meta := f.Metadata()
	var e Encoder
	switch meta[savedKind] {
	case savedLatent:
		l := &Latent{}
		if json.Unmarshal([]byte(meta[savedConfig]), &l.config) != nil || l.config.validate() != nil {
			return nil, bad("the encoder's settings cannot be read")
		}
		term, ok := f.Tensor("term")
		terms, wrong := term.Int64s()
		if !ok || wrong != nil || len(terms) != 1<<bucketBits {
			return nil, bad("tensor %q does not have %d values", "term", 1<<bucketBits)
		}
		idf, ok := f.Tensor("idf")
		if !ok {
			return nil, bad("tensor %q is not there", "idf")
		}
		for _, t := range terms {
			if t < -1 || t >= int64(idf.NumElements()) {
				return nil, bad("tensor %q holds %d, and there are %d terms", "term", t, idf.NumElements())
			}
			l.term = append(l.term, int32(t))
		}
		l.idf = vector("idf", idf.NumElements())
		l.basis = vector("basis", len(l.idf)*l.config.Dim)
		l.mean = vector("mean", l.config.Dim)
		l.finish()
		e = l
	case savedHashing:
		h := &Hashing{}
		if json.Unmarshal([]byte(meta[savedConfig]), &h.config) != nil || h.config.validate() != nil {
			return nil, bad("the encoder's settings cannot be read")
		}
		h.idf = vector("idf", 1<<bucketBits)
		h.mean = vector("mean", h.config.Dim)
		h.hash = h.fingerprint()
		e = h
	default:
		return nil, bad("it holds no saved encoder")
	}
	if err == nil && Key(e) != meta[savedKey] {
		err = bad("the encoder has the key %s, not %s: its content has changed", Key(e), meta[savedKey])
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}
