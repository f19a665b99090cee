package embedding

import "fmt"

// partTexts is how many texts [InParts] encodes between two calls: some seconds of work for a large encoder on few
// cores, and enough for texts of one length to find each other.
const partTexts = 1024

// InParts encodes texts as e.Encode does, in parts, and calls tell after each with the number of texts done. A row
// depends on its text alone, so that the values are the same. A nil tell is not called.
func InParts(e Encoder, texts []string, tell func(done, total int)) (Matrix, error) {
	if tell == nil || len(texts) <= partTexts {
		m, err := e.Encode(texts)
		if err == nil && tell != nil {
			tell(len(texts), len(texts))
		}
		return m, err
	}
	out := NewMatrix(len(texts), e.Dim())
	for from := 0; from < len(texts); from += partTexts {
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
		tell(to, len(texts))
	}
	return out, nil
}
