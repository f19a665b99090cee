package evolution

import (
	"context"
	"fmt"

	"popri/model/embedding"
)

// Embeddings returns what clients vote on, a row for each sample: the mean of the embeddings of four
// variations of it under PrE-Text (lookahead_embedding in similarity.py), its own embedding under Aug-PE.
//
// As in the published code of both variants, the mean is not scaled to unit length: the less the variations agree, the
// shorter it is. Only the metric "cosine" passes over the length. A variation that came out empty counts as the sample
// itself. tell, if not nil, is told how many texts are embedded.
func (e *Evolution) Embeddings(ctx context.Context, p Population, encoder embedding.Encoder,
	tell func(done, total int)) (embedding.Matrix, error) {
	texts := p.Texts()
	variations := texts
	copies := max(1, e.rules.lookAhead)
	if e.rules.lookAhead > 0 {
		written, err := e.write(ctx, p.Samples, copies, p.Round, "look_ahead")
		if err != nil {
			return embedding.Matrix{}, err
		}
		for j, text := range written {
			if text == "" {
				written[j] = texts[j%len(texts)]
			}
		}
		variations = written
	}
	rows, err := embedding.InParts(ctx, encoder, variations, tell)
	if err != nil {
		return embedding.Matrix{}, fmt.Errorf("evolution: round %d: embedding the samples: %w", p.Round, err)
	}
	return meanOfCopies(rows, copies)
}

// meanOfCopies averages rows i, i+n, i+2n, … of copies·n rows: n rows.
func meanOfCopies(rows embedding.Matrix, copies int) (embedding.Matrix, error) {
	if err := rows.Check(); err != nil {
		return embedding.Matrix{}, err
	}
	n := rows.Rows / copies
	if n*copies != rows.Rows {
		return embedding.Matrix{}, fmt.Errorf("evolution: %d embeddings are not %d a sample", rows.Rows, copies)
	}
	if copies == 1 {
		return rows, nil
	}
	out := embedding.NewMatrix(n, rows.Dim)
	for i := range n {
		mean := make([]float64, rows.Dim)
		for c := range copies {
			for j, v := range rows.Row(c*n + i) {
				mean[j] += float64(v)
			}
		}
		for j, sum := range mean {
			out.Row(i)[j] = float32(sum / float64(copies))
		}
	}
	return out, nil
}
