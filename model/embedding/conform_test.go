package embedding_test

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"popri/model/embedding"
)

// triples hold a text, one that is near it and one that is far from both.
var triples = [][3]string{
	{"the compiler reports an error for an unused variable", "the compiler reports errors for unused variables",
		"fresh bread and butter with a cup of tea"},
	{"the reader returns the number of bytes read", "the reader returns how many bytes were read",
		"a long walk along the river at sunset"},
	{"rain is expected in the north tomorrow", "tomorrow rain is expected in northern parts",
		"the function allocates memory for the slice"},
}

// conforms is the suite that every embedding.Encoder must pass: it checks that rows are unit vectors of Dim values,
// that they do not depend on the batch or on the time, that similar texts are closer than others, and that concurrent
// use is safe. tolerance is the largest difference of a text's row between batches (0 if the arithmetic does not depend
// on the batch).
func conforms(t *testing.T, e embedding.Encoder, tolerance float64) {
	var texts []string
	for _, triple := range triples {
		texts = append(texts, triple[:]...)
	}
	plain := len(texts) // the other texts may hold nothing that the encoder knows
	texts = append(texts, "x", strings.Repeat("a very long text goes on and on ", 400), "ünïcödé – 日本語 🙂",
		"broken \xff\xfe bytes", "A B\tC\nD")
	encode := func(t *testing.T, texts ...string) embedding.Matrix {
		t.Helper()
		m, err := e.Encode(texts)
		if err != nil {
			t.Fatalf("encode %d texts: %v", len(texts), err)
		}
		if err := m.Check(); err != nil || m.Rows != len(texts) || m.Dim != e.Dim() {
			t.Fatalf("encode %d texts: matrix %d×%d, encoder of %d: %v", len(texts), m.Rows, m.Dim, e.Dim(), err)
		}
		return m
	}
	all := encode(t, texts...)

	t.Run("unit rows", func(t *testing.T) {
		for i := range texts {
			if n := math.Sqrt(dot(all.Row(i), all.Row(i))); !(math.Abs(n-1) <= 1e-5) && (n != 0 || i < plain) {
				t.Errorf("%.40q has length %g", texts[i], n)
			}
		}
	})
	t.Run("blank texts", func(t *testing.T) {
		m := encode(t, "", " \n\t")
		for i := range m.Rows {
			if n := math.Sqrt(dot(m.Row(i), m.Row(i))); n != 0 && !(math.Abs(n-1) <= 1e-5) {
				t.Errorf("blank text %d has length %g, want 0 or 1", i, n)
			}
		}
	})
	t.Run("no texts", func(t *testing.T) { encode(t) })
	t.Run("batch independence", func(t *testing.T) {
		reversed := slices.Clone(texts)
		slices.Reverse(reversed)
		backwards := encode(t, reversed...)
		for i, text := range texts {
			same(t, text+" alone", all.Row(i), encode(t, text).Row(0), tolerance)
			same(t, text+" in reversed order", all.Row(i), backwards.Row(len(texts)-1-i), tolerance)
		}
	})
	t.Run("determinism", func(t *testing.T) {
		again := encode(t, texts...)
		for i, text := range texts {
			same(t, text, all.Row(i), again.Row(i), 0)
		}
	})
	t.Run("near and far", func(t *testing.T) {
		for i, triple := range triples {
			text, near, far := all.Row(3*i), all.Row(3*i+1), all.Row(3*i+2)
			if n, f := dot(text, near), max(dot(text, far), dot(near, far)); n <= f+0.1 {
				t.Errorf("%q: cosine %.3f with the near text, %.3f with the far one", triple[0], n, f)
			}
		}
	})
	t.Run("concurrent use", func(t *testing.T) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				m, err := e.Encode(texts)
				if err != nil {
					t.Error(err)
					return
				}
				for i, text := range texts {
					same(t, text, all.Row(i), m.Row(i), tolerance)
				}
			})
		}
		group.Wait()
	})
}

func same(t *testing.T, what string, a, b []float32, tolerance float64) {
	t.Helper()
	for i := range a {
		if d := math.Abs(float64(a[i]) - float64(b[i])); !(d <= tolerance) {
			t.Errorf("%.40q: value %d is %g and %g", what, i, a[i], b[i])
			return
		}
	}
}

// dot is the dot product in float64.
func dot(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
