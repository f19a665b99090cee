package embedding

import (
	"errors"
	"fmt"
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

// A long pool is reported while it is embedded, and its vectors are those of one call.
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
	got, err := InParts(e, texts, func(n, total int) {
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
	c := &counted{Encoder: hashing}
	if got, err := InParts(c, texts, nil); err != nil || c.calls != 1 || !reflect.DeepEqual(got, want) {
		t.Errorf("without a listener: %d calls, %v", c.calls, err)
	}
	if _, err := InParts(&slow{Encoder: short{hashing}}, texts, func(int, int) {}); err == nil {
		t.Error("an encoder that leaves a row out is not refused")
	}
}

// short leaves out the last row.
type short struct{ Encoder }

func (s short) Encode(texts []string) (Matrix, error) { return s.Encoder.Encode(texts[1:]) }
