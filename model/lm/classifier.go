package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
	"popri/model/tensor"
)

// A model with [Config.Labels] is a classifier, as transformers' …ForSequenceClassification: its head gives a whole row
// one of C labels, and no token. Scores, gradients and training are as in a model with one counted token a row, whose
// vocabulary is the labels.
//
//	decoders   logits = W h    h [H] the final norm's output at the row's last token, W [C, H]
//	BERT       logits = W tanh(P h + p) + b    h of the row's first token, every token seeing all
//
// transformers takes the last token that is no padding, so a row that ends with the padding token reads otherwise
// there.

// Names of the heads' tensors.
const (
	scoreName      = "score.weight"
	classifierName = "classifier"
	poolerName     = "bert.pooler.dense"
)

// Classifies reports whether the model gives rows labels.
func (c Config) Classifies() bool { return len(c.Labels) > 0 }

// twoWay reports whether every token sees all tokens of its row.
func (c Config) twoWay() bool { return c.Masked || c.Classifies() && c.Type == "bert" }

// classifierHead is the tensor by which a folder is known to have a trained classifier.
func (c Config) classifierHead() string {
	if c.Type == "bert" {
		return classifierName + ".weight"
	}
	return scoreName
}

// parameter is the name of the model's parameter that a checkpoint's tensor is; "" for none.
func (c Config) parameter(tensor string) string {
	name := architectures[c.Type].rename(tensor)
	switch {
	case !c.Classifies():
		return name
	case tensor == scoreName, c.Type == "bert" && strings.HasPrefix(tensor, classifierName+"."):
		return tensor
	case c.Type == "bert" && strings.HasPrefix(strings.TrimPrefix(tensor, "bert."), "pooler."):
		return "bert." + strings.TrimPrefix(tensor, "bert.")
	case name == headName, strings.HasPrefix(name, "cls."):
		return "" // what predicts tokens
	}
	return name
}

// ClassifierLabels returns the labels of the trained classifier in a Hugging Face directory, in the order of its
// outputs; nil if the directory has a language model, or a base model without a head. Outputs without a name in
// config.json's id2label are LABEL_0, LABEL_1, ….
func ClassifierLabels(dir string) ([]string, error) {
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	config.Labels = []string{""}
	c, err := openFolder(dir, config)
	if err != nil {
		return nil, err
	}
	defer c.close()
	head, ok := c.tensors[config.classifierHead()]
	if !ok {
		return nil, nil
	}
	path := filepath.Join(dir, "config.json")
	raw, err := fault.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	var f struct {
		Names   map[string]string `json:"id2label"`
		Problem string            `json:"problem_type"`
	}
	if err := json.Unmarshal(exactjson.TrimBOM(raw), &f); err != nil {
		return nil, fmt.Errorf("lm: %s: %w", path, quote.JSON(err))
	}
	if f.Problem != "" && f.Problem != "single_label_classification" {
		return nil, quote.Errorf("lm: %s: problem_type: %q is not supported (single_label_classification)", path, f.Problem)
	}
	if len(head.Shape) != 2 || head.Shape[0] < 2 || head.Shape[0] > mostLabels {
		return nil, fmt.Errorf("lm: %s: tensor %s has shape %v, want [labels, %d] with 2 to %d labels", dir,
			config.classifierHead(), head.Shape, config.Hidden, mostLabels)
	}
	if n := int64(len(f.Names)); n > 0 && n != head.Shape[0] {
		return nil, fmt.Errorf("lm: %s: id2label names %d labels, the classifier has %d outputs", path, n, head.Shape[0])
	}
	labels := make([]string, head.Shape[0])
	for i := range labels {
		name, ok := f.Names[strconv.Itoa(i)]
		if !ok && len(f.Names) > 0 {
			return nil, fmt.Errorf("lm: %s: id2label has no name of output %d", path, i)
		}
		if labels[i] = name; !ok {
			labels[i] = "LABEL_" + strconv.Itoa(i)
		}
	}
	return labels, checkLabels(labels)
}

// mostLabels bounds the labels of a classifier.
const mostLabels = 1 << 16

func checkLabels(labels []string) error {
	if len(labels) < 2 || len(labels) > mostLabels {
		return fmt.Errorf("lm: a classifier of %d labels, want 2 to %d", len(labels), mostLabels)
	}
	sorted := slices.Sorted(slices.Values(labels))
	if len(slices.Compact(sorted)) != len(labels) {
		return errors.New("lm: two labels of a classifier have the same name")
	}
	return nil
}

// LoadClassifier reads a model with a head for the given labels from a Hugging Face directory. The head of a trained
// classifier is used, whose labels ([ClassifierLabels]) must be these. A language model or a base model gets a new
// head: weights, also of BERT's pooler if the folder lacks it, are 0.02 times draws of normal, and biases 0, as
// transformers begins; what predicts tokens is left out.
func LoadClassifier(dir string, labels []string, o Options, normal func() float64) (*Model, error) {
	if err := checkLabels(labels); err != nil {
		return nil, err
	}
	trained, err := ClassifierLabels(dir)
	if err != nil {
		return nil, err
	}
	if trained != nil && !slices.Equal(trained, labels) {
		return nil, quote.Errorf("lm: %s: its classifier has the labels %q, %q are asked for", dir, trained, labels)
	}
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	config.Labels = slices.Clone(labels)
	return load(dir, config, o, func(s *tensor.Scope, name string, shape []int64) (x tensor.Tensor, ok bool) {
		switch {
		case name == classifierName+".bias", name == poolerName+".bias":
			return s.Zeros(tensor.Float32, shape...), true
		case name == config.classifierHead(), name == poolerName+".weight":
			return drawMatrix(s, initialStd, shape, normal), true
		}
		return x, false
	})
}

// takeClassifier makes the head of a classifier.
func (b *builder) takeClassifier() {
	labels := int64(len(b.Labels))
	if b.Type != "bert" {
		b.m.head.weight = b.take(scoreName, labels, b.m.embedding.tokens.Size(1))
		return
	}
	b.m.head.pooler = b.linear(poolerName, b.hidden, b.hidden, true).parts[0]
	b.m.head.weight = b.take(classifierName+".weight", labels, b.hidden)
	b.m.head.bias = b.take(classifierName+".bias", labels)
}

// targets are the [targets] of rows; for a classifier, the position that it reads of each row, and the row's class.
func (m *Model) targets(rows []Row, starts []int64) (positions []int64, tokens []int32, sequence []int) {
	if !m.Config.Classifies() {
		return targets(rows, starts)
	}
	for i, r := range rows {
		read := len(r.Tokens) - 1
		if m.Config.twoWay() {
			read = 0
		}
		positions, tokens, sequence = append(positions, starts[i]+int64(read)), append(tokens, r.Class), append(sequence, i)
	}
	return positions, tokens, sequence
}

// wholeRows lets every token of a row see all of its tokens, and none of the padding.
func wholeRows(s *tensor.Scope, rows []Row, in Input) Input {
	width := int(in.IDs.Size(1))
	mask := make([]byte, len(rows)*width)
	for i, r := range rows {
		for t := range r.Tokens {
			mask[i*width+t] = 1
		}
	}
	in.Mask = s.FromBytes(tensor.Bool, mask, int64(len(rows)), 1, 1, int64(width))
	return in
}

// pick returns the hidden states [n, H] at flat positions, or all there are if none are given, pooled if the model has
// a pooler.
func (m *Model) pick(s *tensor.Scope, hidden, positions tensor.Tensor, drop dropout) tensor.Tensor {
	x := s.Reshape(rowsAt(s, hidden, positions), -1, hidden.Size(-1))
	if m.head.pooler == nil {
		return x
	}
	// The pooler's dropout has the masks of a block behind the last one.
	return drop.in(len(m.blocks)).apply(s, s.Tanh(m.head.pooler.fast(s, x)), dropEmbedding)
}

// likeliest returns the column of the largest value in each row of logits [n, C].
func likeliest(s *tensor.Scope, logits tensor.Tensor) []int32 {
	n, c := int(logits.Size(0)), int(logits.Size(1))
	values := s.Float32s(logits)
	out := make([]int32, n)
	for i := range out {
		row := values[i*c : (i+1)*c]
		for j, v := range row {
			if v > row[out[i]] {
				out[i] = int32(j)
			}
		}
	}
	return out
}
