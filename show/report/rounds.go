package report

import (
	"slices"

	"popri/show/series"
)

const (
	curveWidth  = 300
	curveHeight = 170
)

// Figure writes a figure in the format of its series.
func Figure(s series.Series, v float64) string {
	switch s.Format {
	case series.Percent:
		return percent(v, s.Decimals)
	case series.Count:
		if !finite(v) {
			return missing
		}
		return count(int(v))
	case series.Bound:
		return roundedUp(v, 4)
	}
	return fixed(v, s.Decimals)
}

// takeLine removes a figure of the rounds from a list and returns it.
func takeLine(name string, rounds []Round, key string, index int) line {
	l := line{name: name, index: index}
	for _, r := range rounds {
		l.x = append(l.x, float64(r.Figures.Number))
		l.y = append(l.y, value(r.Figures.Get(key)))
	}
	return l
}

func (p *page) rounds(r Report) error {
	if len(r.Rounds) == 0 {
		return nil
	}
	for _, plot := range r.Series.Plots {
		fig, ok, err := drawRounds(plot, r.Rounds, r.Privacy.Epsilon)
		if err != nil {
			return err
		}
		if ok {
			p.Curves = append(p.Curves, fig)
		}
	}
	rounds := make([]series.Round, len(r.Rounds))
	for i, round := range r.Rounds {
		rounds[i] = round.Figures
	}
	head, rows := RoundTable(r.Series, rounds)
	timed := slices.ContainsFunc(r.Rounds, func(r Round) bool { return r.Seconds > 0 })
	if p.RoundHead = head; timed {
		p.RoundHead = append(head, "Time")
	}
	for i, cells := range rows {
		if timed {
			cells = append(cells, Duration(r.Rounds[i].Seconds))
		}
		p.Rounds = append(p.Rounds, roundRow{cells, r.Rounds[i].Selected})
		p.HasSelected = p.HasSelected || r.Rounds[i].Selected
	}
	return nil
}
