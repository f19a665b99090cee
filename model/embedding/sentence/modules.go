package sentence

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/safetensors"
)

// pooling says which vector of the tokens' last states stands for the text.
type pooling struct {
	first         bool // the first token's; else the mean of all
	withoutPrompt bool
}

// module is a step after the pooling: unit length, or a dense layer.
type module struct {
	path      string
	out, in   int
	weight    []float32 // [out, in]; nil: unit length
	bias      []float32 // or nil
	hyperbola bool      // tanh follows
}

const supportedModules = "Transformer, Pooling, Dense, Normalize"

// readModules reads which steps follow the transformer.
func (f *Folder) readModules() error {
	path := filepath.Join(f.Dir, "modules.json")
	var modules []struct{ Type, Path string }
	if _, err := f.readJSON("modules.json", func(raw []byte) error { return json.Unmarshal(raw, &modules) }); err != nil {
		return err
	}
	folder := "1_Pooling"
	pooled := len(modules) == 0
	for i, m := range modules {
		kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
		if !filepath.IsLocal(m.Path) && m.Path != "" {
			return quote.Errorf("%s: the path of module %d, %q, is outside the folder", path, i, m.Path)
		}
		switch {
		case kind == "Transformer" && i == 0 && m.Path == "":
		case kind == "Pooling" && !pooled:
			folder, pooled = m.Path, true
		case kind == "Normalize" && pooled:
			f.after = append(f.after, module{})
		case kind == "Dense" && pooled:
			f.after = append(f.after, module{path: m.Path})
		default:
			return quote.Errorf("%s: module %d, %s at %q, is not supported here (supported: %s, in this order)", path,
				i, quote.Raw(m.Type), m.Path, quote.Raw(supportedModules))
		}
	}
	if !pooled {
		return fmt.Errorf("%s names no Pooling", path)
	}
	return f.readPooling(folder)
}

func (f *Folder) readPooling(folder string) error {
	p := struct {
		Dim     int   `json:"word_embedding_dimension"`
		Mean    *bool `json:"pooling_mode_mean_tokens"`
		First   bool  `json:"pooling_mode_cls_token"`
		Mode    any   `json:"pooling_mode"`
		Prompts *bool `json:"include_prompt"`
	}{}
	_, err := f.readJSON(filepath.Join(folder, "config.json"), func(raw []byte) error {
		if err := hfconfig.Decode(raw, &p, "embedding_dimension"); err != nil {
			return err
		}
		mean := p.Mean == nil && !p.First || p.Mean != nil && *p.Mean
		switch p.Mode {
		case nil:
		case "mean":
			mean = true
		case "cls":
			mean, p.First = false, true
		default:
			return quote.Errorf("pooling_mode %q is not supported (supported: mean, cls)", fmt.Sprint(p.Mode))
		}
		if mean == p.First {
			return errors.New("pooling other than the mean of the tokens or the first one is not supported")
		}
		return nil
	})
	f.pooling = pooling{first: p.First, withoutPrompt: p.Prompts != nil && !*p.Prompts}
	return err
}

// readDense reads the dense layers and notes what they add to the hash.
func (f *Folder) readDense() error {
	width := f.Config.Hidden
	for i := range f.after {
		if f.after[i].path == "" {
			continue
		}
		if err := f.after[i].read(f, fmt.Sprint(i), width); err != nil {
			return err
		}
		width = f.after[i].out
	}
	f.dim = width
	return nil
}

// read reads the layer of module number among the steps, for vectors of this width.
func (m *module) read(f *Folder, number string, width int) error {
	c := struct {
		In   int    `json:"in_features"`
		Out  int    `json:"out_features"`
		Bias *bool  `json:"bias"`
		Act  string `json:"activation_function"`
	}{}
	name := filepath.Join(m.path, "config.json")
	found, err := f.readJSON(name, func(raw []byte) error {
		if err := hfconfig.Decode(raw, &c); err != nil {
			return err
		}
		act := c.Act[strings.LastIndexByte(c.Act, '.')+1:]
		switch {
		case c.In != width:
			return fmt.Errorf("in_features is %d, the vectors before have %d values", c.In, width)
		case c.Out < 1 || c.Out > 1<<16:
			return fmt.Errorf("out_features is %d", c.Out)
		case act != "Identity" && act != "Tanh":
			return quote.Errorf("activation_function %q is not supported (supported: Identity, Tanh)", c.Act)
		}
		m.hyperbola = act == "Tanh"
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is missing", filepath.Join(f.Dir, name))
	}
	path := filepath.Join(f.Dir, m.path, safetensors.ModelFile)
	file, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("%w (a Dense module's weights are read from %s, not from pytorch_model.bin)", err,
			safetensors.ModelFile)
	}
	defer file.Close()
	take := func(name string, shape ...int64) ([]float32, error) {
		t, ok := file.Tensor(name)
		if !ok {
			return nil, fmt.Errorf("%s: tensor %s is missing", path, name)
		}
		return values(path, name, t, shape)
	}
	m.in, m.out = c.In, c.Out
	if m.weight, err = take("linear.weight", int64(m.out), int64(m.in)); err != nil {
		return err
	}
	if c.Bias == nil || *c.Bias {
		if m.bias, err = take("linear.bias", int64(m.out)); err != nil {
			return err
		}
	}
	h, err := atomicfile.SHA256(path)
	f.denseHash = append(f.denseHash, fmt.Sprintf("%s %d %v %s", number, m.out, m.hyperbola, h))
	return err
}

// Pool turns the states of a text's tokens [n, H] into its vector of unit length: the modules after the encoder, applied
// to the mean of the states or to the first one.
func (f *Folder) Pool(states, vector []float32) error {
	h := f.Config.Hidden
	x, n := make([]float64, h), len(states)/h
	weight := float64(1 / float32(n))
	if f.pooling.first {
		n, weight = 1, 1
	}
	for k := range n {
		for i, v := range states[k*h:][:h] {
			x[i] += weight * float64(v)
		}
	}
	for _, m := range f.after {
		if m.weight != nil {
			x = m.apply(x)
		} else {
			x = unit(x)
		}
	}
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	length := math.Sqrt(sum)
	if !(length > 0) || math.IsInf(length, 0) {
		return fmt.Errorf("embedding: %s: a text has a vector of length %g", f.Dir, length)
	}
	for i, v := range x {
		vector[i] = float32(v / length)
	}
	return nil
}

func (m module) apply(x []float64) []float64 {
	y := make([]float64, m.out)
	for o := range y {
		row := m.weight[o*m.in:][:m.in]
		var a, b float64 // two sums, which the processor adds side by side
		i := 0
		for ; i+1 < len(row); i += 2 {
			a += float64(row[i]) * x[i]
			b += float64(row[i+1]) * x[i+1]
		}
		if i < len(row) {
			a += float64(row[i]) * x[i]
		}
		if y[o] = a + b; m.bias != nil {
			y[o] += float64(m.bias[o])
		}
		if m.hyperbola {
			y[o] = math.Tanh(y[o])
		}
	}
	return y
}

func unit(x []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / max(math.Sqrt(sum), 1e-12) // as the reference
	}
	return y
}
