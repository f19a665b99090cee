package lanfl

// Choice is a participant's composition of its prompt.
type Choice struct {
	Shots     int     `json:"shots"`     // n*, its examples in all
	Synthetic int     `json:"synthetic"` // j*, the others' samples among them
	Local     float64 `json:"cost_local"`
	Best      float64 `json:"cost"` // with the synthetic ones
}

// Helped says that others' samples lower the cost.
func (c Choice) Helped() bool { return c.Best < c.Local }

// choose finds the number of own examples that costs least, and then the number of them that others' samples replace.
// The first of equal costs is taken, so that fewer examples, and fewer of others, are preferred. cost is called with
// the number of own examples and the number of others', of which there are at most most.
func choose(shots []int, most int, cost func(own, others int) (float64, error)) (c Choice, err error) {
	for i, n := range shots {
		v, err := cost(n, 0)
		if err != nil {
			return c, err
		}
		if i == 0 || v < c.Local {
			c.Shots, c.Local = n, v
		}
	}
	c.Best = c.Local
	for j := 1; j <= min(c.Shots, most); j++ {
		v, err := cost(c.Shots-j, j)
		if err != nil {
			return c, err
		}
		if v < c.Best {
			c.Synthetic, c.Best = j, v
		}
	}
	return c, nil
}
