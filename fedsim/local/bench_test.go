package local_test

import (
	"testing"

	"popri/datasets/clients"
	"popri/datasets/godoc"
	"popri/eval/downstream"
	"popri/fedsim/local"
	"popri/lora"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/scoring/update"
	"popri/testkit/testmodel"
)

// BenchmarkClients trains the small model that comes with the program at 64 clients of the embedded default.
func BenchmarkClients(b *testing.B) {
	corpus, err := godoc.Load("")
	if err != nil {
		b.Fatal(err)
	}
	dir, err := shipped.Dir(shipped.Device)
	if err != nil {
		b.Fatal(err)
	}
	tok := testmodel.Tokenizer(b, dir)
	end, _ := tok.EOS()
	e := downstream.Encoder{Tokenizer: tok, Rows: downstream.Document, Begin: end, End: end, Length: 64}
	load := func() (*lora.Part, error) {
		m, err := lm.Load(dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
		if err != nil {
			return nil, err
		}
		return lora.Whole(m)
	}
	all := corpus.Private.Split(clients.Train)
	rows := make([][]lm.Row, len(all))
	for i, client := range all {
		rows[i] = e.Encode(client.Texts)
	}
	c, err := local.NewLearners(b.Context(), rows, load)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	m, err := load()
	if err != nil {
		b.Fatal(err)
	}
	defer m.Free()
	w := m.Flat()
	q := update.Question{Training: update.Training{Rate: 0.03, Epochs: 1, Batch: 2, Clip: 0.1}, Weights: w, Round: 1}
	which := make([]int, 64)
	for i := range which {
		which[i] = i * len(all) / len(which)
	}
	for b.Loop() {
		if err := c.Each(q, which, func(int, int, []float64) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(which)*b.N)/b.Elapsed().Seconds(), "clients/s")
}
