package embedding

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/parallel"
	"popri/internal/rng"
)

const (
	// oversampling is the number of additional directions that the randomised decomposition follows, and iterations the
	// number of its passes over the texts, so that the last directions are accurate too. On the embedded default, one
	// iteration helped and a second did not.
	oversampling = 16
	iterations   = 1
	// whitening is the power of a direction's variance that the direction is divided by. With 0 the few strongest
	// directions decide; with 1/2 all directions are equal, noise included. A value in between is slightly better than
	// both.
	whitening = 0.25
)

// LatentConfig has the settings of [Latent]. The zero value means the defaults.
type LatentConfig struct {
	// Dim is the length of the vectors; default 256. A larger one separates texts better, costs time and, in private
	// scoring, keeps more of the noise.
	Dim int
	// Terms is the number of features that count, the most common ones; default 32768. They take Terms·Dim·4 bytes.
	Terms int
	// Texts is the number of public texts, evenly spread, that the directions are fitted to; default 8192. More take
	// proportionally longer and change little.
	Texts int
	// Seed starts the randomised decomposition; default 0. It hardly changes the result.
	Seed uint64
}

// Latent is an encoder fitted to public text without labels: the features of [Hashing], reduced to the directions in
// which public texts differ most (latent semantic analysis), so that words that keep the same company are alike. It
// takes seconds to fit, and separates the clients' domain from the rest much better than as many random directions do.
//
//	text ─► tf-idf x, unit length, over the common features ─► (x − mean)·V·Λ^(−1/4) ─► unit length
//
// V and Λ are the leading eigenvectors and eigenvalues of the features' covariance, by the randomised method of Halko,
// Martinsson and Tropp 2011 (algorithm 4.4). Make one with [FitLatent].
type Latent struct {
	config LatentConfig
	term   []int32   // for each bucket its term, or −1
	idf    []float32 // for each term
	basis  []float32 // terms × dim
	mean   []float32 // dim: of the public texts
	hash   string
}

// FitLatent fits the encoder to public texts. It must never see private text, because the result is public. The result
// depends on the texts, their order and the config, not on the number of processors.
func FitLatent(public []string, config LatentConfig) (*Latent, error) {
	config.Dim, config.Terms = cmp.Or(config.Dim, 256), cmp.Or(config.Terms, 1<<15)
	config.Texts = cmp.Or(config.Texts, 1<<13)
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Latent{config: config}
	l.chooseTerms(public)
	if len(l.idf) < config.Dim || len(public) < config.Dim {
		return nil, fault.Userf("embedding: %d public texts with %d features in more than one of them are too few "+
			"for %d dimensions: give more public text, or set scoring.dim to %d or less",
			len(public), len(l.idf), config.Dim, min(len(public), len(l.idf)))
	}
	texts := public
	if len(public) > config.Texts {
		texts = numeric.Tabulate(config.Texts, func(i int) string { return public[i*len(public)/config.Texts] })
	}
	if err := l.decompose(l.features(texts)); err != nil {
		return nil, err
	}
	l.finish()
	return l, nil
}

func (c LatentConfig) validate() error {
	if c.Dim < 2 || c.Dim > 4096 || c.Terms < c.Dim || c.Texts < c.Dim {
		return fmt.Errorf("embedding: latent encoder of %d dimensions, want 2 to 4096, and no more than its %d terms "+
			"and %d texts", c.Dim, c.Terms, c.Texts)
	}
	return nil
}

// finish prepares an encoder whose settings and weights are set.
func (l *Latent) finish() {
	d := sha256.New()
	fmt.Fprintf(d, "latent 1 %+v %d %d %d %d %d %g\n", l.config, bucketBits, gramMin, gramMax, oversampling,
		iterations, whitening)
	for _, part := range []any{l.term, l.idf, l.basis, l.mean} {
		_ = binary.Write(d, binary.LittleEndian, part) // a hash takes everything
	}
	l.hash = hex.EncodeToString(d.Sum(nil)[:16])
}

// Name implements [Encoder].
func (l *Latent) Name() string { return fmt.Sprintf("latent-%d", l.config.Dim) }

// Dim implements [Encoder].
func (l *Latent) Dim() int { return l.config.Dim }

// Hash identifies settings and fitted weights: hex, 32 digits.
func (l *Latent) Hash() string { return l.hash }

// Encode implements [Encoder]. A text without any feature of the public texts gives zeros.
func (l *Latent) Encode(texts []string) (Matrix, error) {
	m := NewMatrix(len(texts), l.config.Dim)
	parallel.Ranges(len(texts), 64, func(from, to int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		var x sparse
		for i := from; i < to; i++ {
			x.term, x.value = x.term[:0], x.value[:0]
			l.add(&x, texts[i], s)
			if len(x.term) == 0 {
				continue
			}
			row := m.Row(i)
			axpy(-1, l.mean, row)
			for k, t := range x.term {
				axpy(x.value[k], l.direction(t), row)
			}
			normalize(row)
		}
	})
	return m, nil
}

func (l *Latent) direction(term int32) []float32 {
	return l.basis[int(term)*l.config.Dim : (int(term)+1)*l.config.Dim]
}

// chooseTerms takes the features that occur in the most public texts, and in at least two: a feature of a single text
// does not relate texts to each other.
func (l *Latent) chooseTerms(public []string) {
	counts := documents(public)
	var buckets []int
	l.term = make([]int32, len(counts))
	for b := range counts {
		l.term[b] = -1
		if counts[b] >= 2 {
			buckets = append(buckets, b)
		}
	}
	slices.SortFunc(buckets, func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	buckets = buckets[:min(len(buckets), l.config.Terms)]
	l.idf = make([]float32, len(buckets))
	for i, b := range buckets {
		l.term[b] = int32(i)
		l.idf[i] = inverse(len(public), counts[b])
	}
}

// sparse is a matrix of texts by terms; row i has entries start[i] to start[i+1].
type sparse struct {
	start []int
	term  []int32
	value []float32
}

func (x *sparse) rows() int { return len(x.start) - 1 }

// add appends a text's weights, of unit length, as a row.
func (l *Latent) add(x *sparse, text string, s *scratch) {
	s.features(text, true)
	first := len(x.value)
	var squares float64
	for _, f := range s.found {
		if t := l.term[bucket(f.hash)]; t >= 0 {
			v := l.idf[t] * logCount(f.count)
			x.term, x.value = append(x.term, t), append(x.value, v)
			squares += float64(v) * float64(v)
		}
	}
	for i := first; i < len(x.value); i++ {
		x.value[i] *= float32(1 / math.Sqrt(squares))
	}
	x.start = append(x.start, len(x.term))
}

func (l *Latent) features(texts []string) *sparse {
	x := &sparse{start: []int{0}}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for _, t := range texts {
		l.add(x, t, s)
	}
	return x
}

// decompose finds the leading eigenvectors of the covariance of the rows of x and sets basis and mean.
func (l *Latent) decompose(x *sparse) error {
	terms, dim := len(l.idf), l.config.Dim
	mean := make([]float32, terms)
	for i, t := range x.term {
		mean[t] += x.value[i] / float32(x.rows())
	}
	width := min(dim+oversampling, terms, x.rows())
	// Rows of z are terms, rows of q are texts; z starts at random and turns towards the leading eigenvectors.
	z := make([]float32, terms*width)
	random := rng.New(l.config.Seed, "latent")
	for i := range z {
		z[i] = float32(random.NormFloat64())
	}
	transposed := x.transpose(terms)
	for range 1 + iterations {
		q := x.times(z, mean, width)
		if err := orthonormalize(q, width); err != nil {
			return err
		}
		z = transposed.timesCentered(q, mean, width)
	}
	// With orthonormal q, (x − mean)ᵀq = z has the singular values of x − mean in the space that q spans.
	values, vectors, err := eigen(z, width)
	if err != nil {
		return err
	}
	whiten := make([]float32, width*dim)
	for k := range dim {
		λ := values[k]
		if !(λ > 1e-9*values[0]) {
			break // the texts have no more directions; the rest stays zero
		}
		scale := math.Pow(λ/values[0], -whitening) / math.Sqrt(λ)
		for i := range width {
			whiten[i*dim+k] = float32(vectors.At(i, k) * scale)
		}
	}
	l.basis = product(z, whiten, width, dim)
	l.mean = make([]float32, dim)
	for t, m := range mean {
		axpy(m, l.direction(int32(t)), l.mean)
	}
	return nil
}

// times returns (x − mean)·z, one row of width values for each text.
func (x *sparse) times(z, mean []float32, width int) []float32 {
	shift := make([]float32, width)
	for t, m := range mean {
		axpy(-m, z[t*width:(t+1)*width], shift)
	}
	out := make([]float32, x.rows()*width)
	x.accumulate(out, z, width, func(_ int, row []float32) { copy(row, shift) })
	return out
}

// timesCentered is (x − mean)ᵀ·q where the receiver is xᵀ: one row for each term.
func (x *sparse) timesCentered(q, mean []float32, width int) []float32 {
	total := make([]float32, width)
	for i := 0; i < len(q); i += width {
		axpy(1, q[i:i+width], total)
	}
	out := make([]float32, x.rows()*width)
	x.accumulate(out, q, width, func(t int, row []float32) { axpy(-mean[t], total, row) })
	return out
}

// accumulate adds to each row of out, which begin has prepared, the rows of z that x names, times their values.
func (x *sparse) accumulate(out, z []float32, width int, begin func(i int, row []float32)) {
	parallel.Ranges(x.rows(), 64, func(from, to int) {
		for i := from; i < to; i++ {
			row := out[i*width : (i+1)*width]
			begin(i, row)
			for k := x.start[i]; k < x.start[i+1]; k++ {
				t := int(x.term[k])
				axpy(x.value[k], z[t*width:(t+1)*width], row)
			}
		}
	})
}

func (x *sparse) transpose(terms int) *sparse {
	out := &sparse{make([]int, terms+1), make([]int32, len(x.term)), make([]float32, len(x.value))}
	for _, t := range x.term {
		out.start[t+1]++
	}
	for t := range terms {
		out.start[t+1] += out.start[t]
	}
	next := slices.Clone(out.start)
	for i := range x.rows() {
		for k := x.start[i]; k < x.start[i+1]; k++ {
			at := &next[x.term[k]]
			out.term[*at], out.value[*at] = int32(i), x.value[k]
			*at++
		}
	}
	return out
}

// orthonormalize replaces the columns of q by an orthonormal basis of their span, with columns of zeros if the span has
// fewer dimensions. The second pass removes the rounding errors of the first.
func orthonormalize(q []float32, width int) error {
	for range 2 {
		values, vectors, err := eigen(q, width)
		if err != nil {
			return err
		}
		whiten := make([]float32, width*width)
		for k, λ := range values {
			if λ > 1e-6*values[0] {
				for i := range width {
					whiten[i*width+k] = float32(vectors.At(i, k) / math.Sqrt(λ))
				}
			}
		}
		copy(q, product(q, whiten, width, width))
	}
	return nil
}

// eigen returns the eigenvalues of aᵀa, largest first, and their vectors as columns; a has rows of width values.
func eigen(a []float32, width int) ([]float64, *mat.Dense, error) {
	gram := make([]float32, width*width)
	m := blas32.General{Rows: len(a) / width, Cols: width, Stride: width, Data: a}
	blas32.Gemm(blas.Trans, blas.NoTrans, 1, m, m, 0, blas32.General{Rows: width, Cols: width, Stride: width, Data: gram})
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(width, numeric.Convert[float64](gram)), true) {
		return nil, nil, fmt.Errorf("embedding: the public texts' features have no eigenvalues: is there a value " +
			"that is not finite?")
	}
	values := e.Values(nil)
	slices.Reverse(values)
	var ascending mat.Dense
	e.VectorsTo(&ascending)
	vectors := mat.NewDense(width, width, nil)
	for k := range width {
		vectors.SetCol(k, mat.Col(nil, width-1-k, &ascending))
	}
	return values, vectors, nil
}

// product returns a·b, where a has rows of inner values and b rows of outer ones.
func product(a, b []float32, inner, outer int) []float32 {
	rows := len(a) / inner
	out := make([]float32, rows*outer)
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, blas32.General{Rows: rows, Cols: inner, Stride: inner, Data: a},
		blas32.General{Rows: inner, Cols: outer, Stride: outer, Data: b}, 0,
		blas32.General{Rows: rows, Cols: outer, Stride: outer, Data: out})
	return out
}

// axpy adds a·x to y.
func axpy(a float32, x, y []float32) {
	blas32.Axpy(a, blas32.Vector{N: len(x), Inc: 1, Data: x}, blas32.Vector{N: len(y), Inc: 1, Data: y})
}
