package embedding

import (
	"fmt"
	"math"

	"popri/internal/parallel"
)

// Joined puts next to the embedding of a text what an encoder of meanings hardly sees: the text's form, which is
// capitals, digits, signs, lines and lengths, and its words.
//
//	z(x) = [ e(x), λ·f(x)/√k, ω·w(x) ]      f(x)[i] = (measure i of x − its mean)/its deviation, within ±4
//
// The k measures are [FormMeasures]; a text without words has zeros. w(x) is the unit vector of the text's words and of
// pairs of neighbours, hashed to [WordsDim] values. A part of weight 0 is not there. The rows of z are no unit vectors.
type Joined struct {
	Encoder         // e
	Form    float64 // λ
	Words   float64 // ω
}

// Join joins an encoder with the parts of these weights; without any, it returns the encoder.
func Join(e Encoder, form, words float64) Encoder {
	if form == 0 && words == 0 {
		return e
	}
	return &Joined{e, form, words}
}

// Name implements Encoder.
func (j *Joined) Name() string { return j.Encoder.Name() + j.parts("+form-%g", "+words-%g") }

// Hash identifies the encoder of meanings, the measures, the hash of words and the weights.
func (j *Joined) Hash() string { return Key(j.Encoder) + j.parts("-form1-%g", "-words1-%g") }

func (j *Joined) parts(form, words string) (text string) {
	if j.Form > 0 {
		text += fmt.Sprintf(form, j.Form)
	}
	if j.Words > 0 {
		text += fmt.Sprintf(words, j.Words)
	}
	return text
}

// Parts are the numbers of values that form and words of these weights have.
func Parts(form, words float64) (measures, hashed int) {
	if form > 0 {
		measures = len(FormMeasures)
	}
	if words > 0 {
		hashed = WordsDim
	}
	return measures, hashed
}

// Dim implements Encoder.
func (j *Joined) Dim() int {
	measures, hashed := Parts(j.Form, j.Words)
	return j.Encoder.Dim() + measures + hashed
}

// FormAt is where the measures of form begin and end in a vector.
func (j *Joined) FormAt() (from, to int) {
	measures, _ := Parts(j.Form, j.Words)
	return j.Encoder.Dim(), j.Encoder.Dim() + measures
}

// Sentence is the encoder of meanings.
func (j *Joined) Sentence() Encoder { return j.Encoder }

// Encode implements Encoder.
func (j *Joined) Encode(texts []string) (Matrix, error) {
	vectors, err := j.Encoder.Encode(texts)
	if err != nil {
		return vectors, err
	}
	return j.Join(texts, vectors), nil
}

// Join appends the parts to the texts' embeddings by the encoder of meanings; further values of the given rows are left
// out.
func (j *Joined) Join(texts []string, vectors Matrix) Matrix {
	from, to := j.FormAt()
	out := NewMatrix(len(texts), j.Dim())
	parallel.Ranges(len(texts), 64, func(first, last int) {
		for i := first; i < last; i++ {
			copy(out.Row(i), vectors.Row(i)[:from])
			if j.Form > 0 {
				j.measure(out.Row(i)[from:to], texts[i])
			}
			if j.Words > 0 {
				hashWords(out.Row(i)[to:], texts[i], float32(j.Words))
			}
		}
	})
	return out
}

// Measured turns values as they stand in a vector into measures of form: the inverse of what Encode does, but for its
// bound.
func (j *Joined) Measured(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, m := range FormMeasures {
		out[i] = m.Mean + m.Std*values[i]/j.Unit()
	}
	return out
}

// Unit is what a typical deviation of a measure counts in a vector.
func (j *Joined) Unit() float64 { return j.Form / math.Sqrt(float64(len(FormMeasures))) }
