package cost

import (
	"math"
	"testing"
)

// A run is whole where there is time, the least where there is none, never larger with less time, and loses texts first, then
// rounds.
func TestFit(t *testing.T) {
	c := configuration(t, 4)
	c.Synthetic.Texts, c.Synthetic.PublicTexts = 400, 41
	whole, most, err := Fit(c, nil, math.Inf(1))
	if err != nil || whole.Trainer.Rounds != 4 || whole.Synthetic.Texts != 400 || whole.Synthetic.PublicTexts != 41 {
		t.Fatalf("%v: %+v, %+v", err, whole.Trainer, whole.Synthetic)
	}
	least, flops, err := Fit(c, nil, 0)
	if err != nil || least.Trainer.Rounds != 1 || least.Downstream.Steps != (c.Downstream.Steps+1)/2 ||
		least.Synthetic.Texts != 100 || least.Synthetic.PublicTexts != 11 {
		t.Fatalf("%v: %+v, %+v", err, least.Trainer, least.Synthetic)
	}
	if !(flops < most) {
		t.Errorf("a quarter takes %g operations, all of it %g", flops, most)
	}
	texts, rounds := 0, 0
	for bound := flops; bound < most; bound += (most - flops) / 10 {
		fitted, of, err := Fit(c, nil, bound)
		if err != nil || of > bound || fitted.Synthetic.Texts < texts || fitted.Trainer.Rounds < rounds ||
			fitted.Synthetic.Texts > 100 && fitted.Trainer.Rounds < 4 ||
			fitted.Trainer.Rounds > 1 && fitted.Downstream.Steps < c.Downstream.Steps {
			t.Errorf("%v: at most %g: %g operations, %+v; in less, %d rounds and %d texts", err, bound, of, fitted, rounds, texts)
		}
		texts, rounds = fitted.Synthetic.Texts, fitted.Trainer.Rounds
	}
}
