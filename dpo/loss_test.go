package dpo

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"popri/internal/numeric"
)

// kinked are the margins β·d at which a loss has no derivative.
var kinked = map[string]float64{"hinge": 1}

func TestLossGradients(t *testing.T) {
	margins := []float64{0, 1e-6, -1e-6, 0.3, -0.7, 2, -3, 20, -20, 200, -200, 1e4, -1e4}
	for _, name := range Losses() {
		if name == "kto_pair" { // its gradients take means of the update for constants; TestGoldenBatches compares them
			continue
		}
		for _, p := range []Params{{Beta: 0.1, LabelSmoothing: 0.01}, {Beta: 1, LabelSmoothing: 0.1},
			{Beta: 0.01, LabelSmoothing: 0.45},
			{Beta: 0.5, LabelSmoothing: 1e-3, SFT: 0.7, Gamma: 0.5}} {
			l, err := NewLoss(name, p)
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			for _, x := range margins {
				for _, lengths := range [][2]int{{1, 1}, {5, 17}, {64, 3}} {
					d := x / p.Beta
					e := Example{PolicyChosen: -60 + 0.6*d, PolicyRejected: -70 - 0.4*d, RefChosen: -60,
						RefRejected: -70, ChosenLen: lengths[0], RejectedLen: lengths[1], MeanChosenLen: 7.5}
					if kink, ok := kinked[name]; ok && math.Abs(x-kink) < 0.01 {
						continue
					}
					loss, gc, gr := l.Eval(e)
					// The step is as small as keeps the rounding of a loss of this size below the tolerance.
					h := 1e-4 * math.Max(1, math.Abs(d)) * math.Min(1, 1/p.Beta)
					difference := func(move func(*Example, float64)) float64 {
						a, b := e, e
						move(&a, h)
						move(&b, -h)
						up, _, _ := l.Eval(a)
						down, _, _ := l.Eval(b)
						return (up - down) / (2 * h)
					}
					tolerance := func(g float64) float64 {
						return 1e-6*math.Max(math.Abs(g),
							p.Beta) + 1e-14*math.Abs(loss)/h
					}
					if f := difference(func(e *Example,
						h float64) {
						e.PolicyChosen += h
					}); !(math.Abs(f-gc) <= tolerance(gc)) {
						t.Errorf("%s %+v at margin %g, lengths %v: the chosen gradient is %g, differences give %g",
							name, p, x, lengths, gc, f)
					}
					if f := difference(func(e *Example,
						h float64) {
						e.PolicyRejected += h
					}); !(math.Abs(f-gr) <= tolerance(gr)) {
						t.Errorf("%s %+v at margin %g, lengths %v: the rejected gradient is %g, differences give %g",
							name, p, x, lengths, gr, f)
					}
					checked++
				}
			}
			if checked < 30 {
				t.Errorf("%s: only %d points were checked", name, checked)
			}
		}
	}
}

// TestExtremeMargins: where e^x overflows or vanishes, losses and gradients stay finite and exact.
func TestExtremeMargins(t *testing.T) {
	for _, name := range Losses() {
		l, err := NewLoss(name, Params{Beta: 1, LabelSmoothing: 0.1, SFT: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []float64{1e3, -1e3, 1e6, -1e6, 1e15, -1e15, 1e-300, -1e-300} {
			loss, gc, gr := l.Eval(Example{PolicyChosen: d, ChosenLen: 3, RejectedLen: 4, MeanChosenLen: 3})
			if !numeric.Finite(loss) || !numeric.Finite(gc) || !numeric.Finite(gr) {
				t.Errorf("%s at %g: %g, %g, %g", name, d, loss, gc, gr)
			}
		}
	}
	// −ln σ(x) is −x for a large negative margin and e^−x for a large positive one.
	for _, x := range []float64{-800, -50, 30, 600} {
		loss, _, _ := sigmoid{1}.Eval(Example{PolicyChosen: x})
		want := -x
		if x > 0 {
			want = math.Exp(-x)
		}
		if !(math.Abs(loss-want) <= 1e-12*want) {
			t.Errorf("at %g the loss is %g, want %g", x, loss, want)
		}
	}
	ln2, _ := new(big.Float).SetString("0.693147180559945309417232121458")
	want, _ := ln2.Float64()
	for _, name := range []string{"sigmoid", "sigmoid_norm", "cdpo", "robust"} {
		l, err := NewLoss(name, Params{Beta: 0.3, LabelSmoothing: 0.2})
		if err != nil {
			t.Fatal(err)
		}
		if loss, _, _ := l.Eval(Example{PolicyChosen: -5, PolicyRejected: -6, RefChosen: -5, RefRejected: -6, ChosenLen: 2, RejectedLen: 9, MeanChosenLen: 2}); !(math.Abs(loss-want) <= 1e-15) {
			t.Errorf("%s of a policy that is the reference is %v, want %v", name, loss, want)
		}
	}
}

// TestScores: rebel regresses on the difference of scores in units of the update's mean, qrpo on ranks; both are least where
// the log-ratios are what they ask for.
func TestScores(t *testing.T) {
	pairs := []Pair{{Chosen: []int32{1}, ChosenScore: .5, RejectedScore: .2, RejectedRank: 5},
		{Chosen: []int32{1}, ChosenScore: .1, RejectedScore: 0, RejectedRank: 5}}
	for i, margin := range []float64{1.5, .5} { // of a mean of .2
		e := pairs[i].example([2]float64{margin / .1, 0}, meansOf(pairs))
		if loss, gc, gr := (rebel{.1}).Eval(e); !(math.Abs(e.Margin-margin) < 1e-12 && loss < 1e-20 && gc == -gr) {
			t.Errorf("pair %d: margin %g, loss %g", i, e.Margin, loss)
		}
	}
	if e := (Pair{}).example([2]float64{}, meansOf([]Pair{{}})); e.Margin != 1 {
		t.Errorf("without scores, the margin is %g", e.Margin)
	}
	const β = .5
	z := β * math.Log(β*(math.Exp(1/β)-1))
	for _, c := range []struct {
		rank, samples    int
		chosen, rejected float64 // quantiles
	}{{5, 10, .95, .55}, {0, 10, .75, .25}, {2, 2, .75, .25}} {
		l := newQRPO(Params{Beta: β, Samples: c.samples})
		e := Example{PolicyChosen: (c.chosen - z) / β, PolicyRejected: (c.rejected - z) / β, RejectedRank: c.rank}
		if loss, _, _ := l.Eval(e); !(loss < 1e-20) {
			t.Errorf("%+v: loss %g", c, loss)
		}
	}
	if l := newQRPO(Params{Beta: 1e-3, Samples: 2}).(qrpo); !(math.Abs(l.z-(1+1e-3*math.Log(1e-3))) < 1e-12) {
		t.Errorf("z is %g", l.z)
	}
}

func TestNewLossRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Params
		want string
	}{
		{"dpo", Params{Beta: 1}, `"dpo"`},
		{"sigmoid", Params{}, "beta is 0"},
		{"sigmoid", Params{Beta: math.NaN()}, "beta is NaN"},
		{"sigmoid", Params{Beta: math.Inf(1)}, "beta is +Inf"},
		{"cdpo", Params{Beta: 1, LabelSmoothing: 0.5}, "label smoothing is 0.5"},
		{"cdpo", Params{Beta: 1, LabelSmoothing: math.NaN()}, "label smoothing is NaN"},
		{"robust", Params{Beta: 1, LabelSmoothing: -0.1}, "label smoothing is -0.1"},
		{"hinge", Params{Beta: 1, SFT: -1}, "weight -1"},
		{"exo_pair", Params{Beta: 1}, "recommends 1e-3"},
		{"simpo", Params{Beta: 1, Gamma: math.NaN()}, "gamma is NaN"},
	} {
		if l, err := NewLoss(c.name, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v gives %v, %v", c.name, c.p, l, err)
		}
	}
}

func ExampleNewLoss() {
	l, err := NewLoss("sigmoid", Params{Beta: 0.1})
	if err != nil {
		fmt.Println(err)
		return
	}
	loss, _, _ := l.Eval(Example{PolicyChosen: -40, PolicyRejected: -52, RefChosen: -42, RefRejected: -50})
	fmt.Printf("%.4f\n", loss)
	// Output: 0.5130
}
