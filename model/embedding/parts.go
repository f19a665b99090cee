package embedding

import (
	"context"
	"fmt"
)

// partTexts is how many texts [InParts] encodes between two calls: some seconds of work for a large encoder on few
// cores, and enough for texts of one length to find each other.
const partTexts = 512

// InParts encodes texts as e.Encode does, in parts, and calls tell, if not nil, after each with the number of texts done.
// It stops between two parts when ctx ends. A row depends on its text alone, so that the values are the same.
func InParts(ctx context.Context, e Encoder, texts []string, tell func(done, total int)) (Matrix, error) {
	out := NewMatrix(len(texts), e.Dim())
	for from := 0; from < len(texts); from += partTexts {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		to := min(from+partTexts, len(texts))
		m, err := e.Encode(texts[from:to])
		if err != nil {
			return out, err
		}
		if m.Rows != to-from || m.Dim != out.Dim {
			return out, fmt.Errorf("embedding: encoder %s gives a matrix of %d×%d for %d texts, of dimension %d",
				e.Name(), m.Rows, m.Dim, to-from, out.Dim)
		}
		copy(out.Data[from*out.Dim:], m.Data)
		if tell != nil {
			tell(to, len(texts))
		}
	}
	return out, nil
}
