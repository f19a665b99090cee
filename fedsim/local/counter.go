package local

import (
	"popri/datasets/clients"
	"popri/model/lm"
)

// Counter are train clients who count tokens: their texts as the rows of a model. They are private data. Counter
// implements fedsim.Counter.
type Counter struct{ rows [][][]int32 }

// NewCounter encodes the clients' texts.
func NewCounter(train []clients.Client, encode func(texts []string) []lm.Row) *Counter {
	c := &Counter{make([][][]int32, len(train))}
	for i, client := range train {
		for _, row := range encode(client.Texts) {
			c.rows[i] = append(c.rows[i], row.Tokens)
		}
	}
	return c
}

// N implements fedsim.Counter.
func (c *Counter) N() int { return len(c.rows) }

// Rows implements fedsim.Counter.
func (c *Counter) Rows(client int) [][]int32 { return c.rows[client] }
