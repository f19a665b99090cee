package embedding

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
)

// slow is an encoder that answers a part of the texts only when the one before was reported.
type slow struct {
	Encoder
	reported chan int
	calls    int
}

func (s *slow) Encode(texts []string) (Matrix, error) {
	if s.calls++; s.calls > 1 {
		select {
		case <-s.reported:
		case <-time.After(10 * time.Second):
			return Matrix{}, errors.New("the part before was not reported")
		}
	}
	return s.Encoder.Encode(texts)
}

// A long pool is reported while it is embedded, and its vectors equal one call's.
func TestInParts(t *testing.T) {
	texts := make([]string, 2*partTexts+7)
	for i := range texts {
		texts[i] = fmt.Sprintf("text number %d of the sea", i)
	}
	hashing, err := FitHashing(texts, HashingConfig{Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	want, err := hashing.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	e := &slow{Encoder: hashing, reported: make(chan int, 3)}
	var done []int
	got, err := InParts(t.Context(), e, texts, func(n, total int) {
		if total != len(texts) {
			t.Errorf("of %d", total)
		}
		done = append(done, n)
		e.reported <- n
	})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("other vectors, %v", err)
	}
	if !reflect.DeepEqual(done, []int{partTexts, 2 * partTexts, len(texts)}) {
		t.Errorf("reported %v", done)
	}
	if got, err := InParts(t.Context(), hashing, texts, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("without a listener: %v", err)
	}
	if _, err := InParts(t.Context(), short{hashing}, texts, nil); err == nil {
		t.Error("an encoder that leaves a row out is not refused")
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &counted{Encoder: hashing}
	if _, err := InParts(ctx, c, texts, func(int, int) { cancel() }); !errors.Is(err, context.Canceled) || c.calls != 1 {
		t.Errorf("interrupted in the first part: %d calls, %v", c.calls, err)
	}
}

// short leaves out the last row.
type short struct{ Encoder }

func (s short) Encode(texts []string) (Matrix, error) { return s.Encoder.Encode(texts[1:]) }

// Far texts have cosines around 0 with a deviation of 1/√dim: the projection, before centring, is unbiased.
func TestHashingProjectionIsUnbiased(t *testing.T) {
	h, err := FitHashing([]string{"a storm", "the sea", "a quiet street"}, HashingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h.mean = nil
	texts := make([]string, 200)
	for i := range texts {
		texts[i] = fmt.Sprintf("%c%d%c", 'α'+rune(i%20), i*7919, 'а'+rune(i%30))
	}
	m, err := h.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	var sum, squares float64
	n := 0
	for i := range m.Rows {
		for j := range i {
			c := 0.0
			for k, v := range m.Row(i) {
				c += float64(v) * float64(m.Row(j)[k])
			}
			sum += c
			squares += c * c
			n++
		}
	}
	if mean, std := sum/float64(n), math.Sqrt(squares/float64(n)); math.Abs(mean) > 0.03 ||
		std > 3/math.Sqrt(float64(h.Dim())) {
		t.Errorf("cosines of unlike texts: mean %.4f, deviation %.4f", mean, std)
	}
}
