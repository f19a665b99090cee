package assembly

import (
	"slices"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/model/embedding"
)

// counting is an encoder that counts what it encodes.
type counting struct {
	name  string
	texts int
}

func (e *counting) Name() string { return e.name }
func (e *counting) Dim() int     { return 2 }
func (e *counting) Encode(texts []string) (embedding.Matrix, error) {
	e.texts += len(texts)
	m := embedding.NewMatrix(len(texts), 2)
	for i, s := range texts {
		copy(m.Row(i), []float32{float32(len(s)), 1})
	}
	return m, nil
}

// What is the same is made once; a run with other texts, other clients, another encoder or another question makes its own.
func TestCommon(t *testing.T) {
	client := func(id string, split clients.Split, texts ...string) clients.Client {
		return clients.Client{ID: id, Split: split, Texts: texts, Labels: make([]string, len(texts))}
	}
	train := []clients.Client{client("a", clients.Train, "one", "three"), client("b", clients.Train, "seven")}
	moved := []clients.Client{client("a", clients.Train, "one"), client("b", clients.Train, "three", "seven")}
	labelled := slices.Clone(train)
	labelled[0].Labels = []string{"x", "y"}
	k, e := new(Common), &counting{name: "e"}
	for _, c := range []struct {
		about   string
		common  *Common
		train   []clients.Client
		encoder *counting
		texts   bool
		classes []string
		encoded int
	}{
		{"the first run", k, train, e, false, nil, 3},
		{"the same again", k, train, e, false, nil, 0},
		{"texts kept", k, train, e, true, nil, 3},
		{"the same texts at other clients", k, moved, e, true, nil, 3},
		{"fewer clients", k, moved[:1], e, true, nil, 1},
		{"labels asked for", k, moved[:1], e, true, []string{"x", "y"}, 1},
		{"other labels", k, labelled[:1], e, true, []string{"x", "y"}, 2},
		{"another encoder", k, train, &counting{name: "f"}, true, nil, 3},
		{"nothing kept", nil, train, &counting{name: "f"}, true, nil, 3},
	} {
		before := c.encoder.texts
		got, err := c.common.Embedded(t.Context(), c.train, c.encoder, c.texts, c.classes, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := c.encoder.texts - before; n != c.encoded {
			t.Errorf("%s: %d texts encoded, want %d", c.about, n, c.encoded)
		}
		if got.Clients != len(c.train) || got.HasTexts() != c.texts || (got.Labels != nil) != (c.classes != nil) {
			t.Errorf("%s: %d clients, with texts %v, labels %v", c.about, got.Clients, got.HasTexts(), got.Labels)
		}
	}

	p := &clients.Population{Clients: []clients.Client{client("v", clients.Validation, "two", "three", "four")}}
	before := e.texts
	first, err := k.Reference(t.Context(), p, e, nil)
	again, err2 := k.Reference(t.Context(), p, e, nil)
	if err != nil || err2 != nil || first != again || e.texts-before != 3 {
		t.Errorf("validation texts: %v, %v, %d encoded", err, err2, e.texts-before)
	}

	config := configs.Default()
	config.Scoring.Encoder, config.Scoring.Dim = "hashing", 16
	public := datasets.Public{Prompts: []datasets.Text{{Text: "some public text"}, {Text: "and some more of it"}}}
	one, err := k.Encoder(config, public)
	two, err2 := k.Encoder(config, public)
	if err != nil || err2 != nil || embedding.Sentence(one) != embedding.Sentence(two) {
		t.Errorf("fitted twice to one text: %v, %v", err, err2)
	}
	config.Scoring.Dim = 8
	if other, err := k.Encoder(config, public); err != nil || embedding.Sentence(other) == embedding.Sentence(one) {
		t.Errorf("another dimension gives the same encoder: %v", err)
	}
}
