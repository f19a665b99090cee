package target

import (
	"math"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/internal/rng"
	"popri/methods/method"
	"popri/model/embedding"
	"popri/scoring/query"
)

// TestStyle: the release shows how clients write. Public texts that differ from theirs in capitals alone are written
// like theirs; where clients write capitals, too, or differ in more than capitals, public texts stay as they are.
func TestStyle(t *testing.T) {
	public := func(i int) string {
		words := strings.Fields("The ship left London on Monday with Captain Brown and a crew of nine Danes for the " +
			"far North Sea")
		random := rng.New(1, "style", string(rune('a'+i%26)), string(rune('a'+i/26)))
		random.Shuffle(len(words), func(a, b int) { words[a], words[b] = words[b], words[a] })
		return strings.Join(words[:8+random.IntN(8)], " ") + "."
	}
	var texts []datasets.Text
	for i := range 600 {
		texts = append(texts, datasets.Text{Text: public(i)})
	}
	latent, err := embedding.FitLatent(datasets.Strings(texts), embedding.LatentConfig{Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	form := &embedding.Joined{Encoder: latent, Form: 0.5}
	e := method.Env{Config: configs.Default(), Encoder: form}
	e.Config.Scoring.Dim, e.Config.Scoring.Form, e.Public.Generator = 8, 0.5, texts
	for _, c := range []struct {
		write func(string) string
		style Style
		words string
	}{
		{strings.ToLower, "without capitals", "quotes and product are written without capitals"},
		{strings.ToUpper, "in capitals", "words in capitals"},
		{func(s string) string { return s }, "", ""},
		{func(s string) string { return "* " + strings.ReplaceAll(s, " ", "\n* #7: ") }, "", "words with a digit"},
	} {
		p, err := Embed(t.Context(), e, nil)
		if err != nil {
			t.Fatal(err)
		}
		q, err := p.Query(e)
		if err != nil {
			t.Fatal(err)
		}
		if sent := Traffic(e.Config).Sent; q.Len() != sent {
			t.Errorf("%d values are sent, announced %d", q.Len(), sent)
		}
		const clients = 500
		means := query.Means{Clients: clients, Dim: form.Dim()}
		for i := range clients {
			vectors, err := form.Encode([]string{c.write(public(i)), c.write(public(600 - i))})
			if err != nil {
				t.Fatal(err)
			}
			mean := make([]float64, form.Dim())
			query.MeanRow(mean, vectors)
			means.Data = append(means.Data, mean...)
		}
		read := p.Read(noised(t, q, means, rng.New(1, t.Name()))).styled(e)
		if read.Form.Style != c.style || !strings.Contains(read.Form.String(), c.words) ||
			(c.words == "") != (read.Form.String() == "") {
			t.Errorf("style %q, want %q; %q", read.Form.Style, c.style, read.Form.String())
		}
		if several := strings.Contains(c.write("one two"), "\n"); read.Form.Lines != several {
			t.Errorf("style %q: several lines %v, want %v", c.style, read.Form.Lines, several)
		}
		for i, x := range read.Pool.Texts[:50] {
			if want := c.style.Write(texts[i].Text); x.Text != want {
				t.Fatalf("public text %q, want %q", x.Text, want)
			}
		}
		for i, v := range read.Centre {
			if v != p.Centre[i] {
				t.Fatal("the centre by which clients answered has moved")
			}
		}
		if m := read.Form.Measures[0]; math.Abs(m.Public-0.06) > 0.05 || m.Noise <= 0 {
			t.Errorf("of public text %+v", m)
		}
	}
}

// TestPossible: a mean with a share of texts above 1 is made shorter until no share is, unless the noise may be what
// moved it.
func TestPossible(t *testing.T) {
	form := &embedding.Joined{Encoder: noEncoder{}, Form: 0.5}
	public := form.Measured(make([]float64, len(embedding.FormMeasures)))
	short := slices.IndexFunc(embedding.FormMeasures,
		func(m embedding.Measure) bool { return m.Name == "texts of fewer than 8 words" })
	for _, c := range []struct{ share, noise, want float64 }{{1.3, 1e-4, 0.75}, {0.9, 1e-4, 1}, {1.3, 0.1, 1},
		{-0.1, 1e-4, 0.5}} {
		m := embedding.FormMeasures[short] // 0.1 ± 0.3
		target := &Target{Pool: &Pool{Vectors: embedding.NewMatrix(1, form.Dim()), Centre: make([]float64, form.Dim())},
			Mean: make([]float64, form.Dim()), Noise: c.noise}
		target.Mean[dim+short] = (c.share - m.Mean) / m.Std * form.Unit()
		if got := target.possible(form, public); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("a share of %g with the noise %g: the factor %g, want %g", c.share, c.noise, got, c.want)
		}
	}
}
