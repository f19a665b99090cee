package report

import (
	"fmt"
	"math"
	"slices"
)

// mostViews is the number of rounds whose samples are drawn.
const mostViews = 6

// Views chooses the rounds whose samples are drawn, at even distances from the first to the last. The one whose
// adapters were selected (0 for none) replaces its nearest neighbour.
func Views(rounds, selected int) (chosen []int) {
	places := min(mostViews, rounds)
	for i := range places {
		chosen = append(chosen, 1+i*(rounds-1)/max(1, places-1))
	}
	if selected < 1 || slices.Contains(chosen, selected) {
		return chosen
	}
	distance := func(a, b int) int { return max(a-selected, selected-a) - max(b-selected, selected-b) }
	nearest := slices.MinFunc(chosen[1:places-1], distance)
	chosen[slices.Index(chosen, nearest)] = selected
	return chosen
}

// views draws the samples of some rounds, all to the same scale.
func (p *page) views(list []View) error {
	var left, right, low, high float64
	for _, v := range list {
		for _, at := range append([][2]float64{{2 * v.Reference[0], 2 * v.Reference[1]},
			{-2 * v.Reference[0], -2 * v.Reference[1]}}, v.Points...) {
			left, right = min(left, at[0]), max(right, at[0])
			low, high = min(low, at[1]), max(high, at[1])
		}
	}
	for _, v := range list {
		samples := line{name: "samples", points: true}
		for _, at := range v.Points {
			samples.x, samples.y = append(samples.x, at[0]), append(samples.y, at[1])
		}
		lines := []line{samples}
		const steps = 60
		for deviations := 1.0; deviations <= 2; deviations++ {
			ellipse := line{name: fmt.Sprintf("validation texts, %g SD", deviations), index: 1, bare: true}
			for k := range steps + 1 {
				angle := 2 * math.Pi * float64(k) / steps
				ellipse.x = append(ellipse.x, deviations*v.Reference[0]*math.Cos(angle))
				ellipse.y = append(ellipse.y, deviations*v.Reference[1]*math.Sin(angle))
			}
			lines = append(lines, ellipse)
		}
		ticks, _, _ := niceTicks(left, right, false)
		fig, ok, err := drawPlot(fmt.Sprintf("Samples of round %d", v.Round), lines,
			plotOptions{width: curveWidth, height: curveWidth * 0.75, ticks: ticks,
				bounds: &[4]float64{left, right, low, high}})
		if err != nil {
			return fmt.Errorf("samples of round %d: %w", v.Round, err)
		}
		if ok {
			p.Views = append(p.Views, fig)
		}
	}
	return nil
}
