package watch

// maxPoints is more than a picture of 300 points shows, and bounds a curve's memory.
const maxPoints = 512

// curve is a line that grows. When it has too many points, every second one goes, and from then on only every second
// new one is kept; the newest one is always there.
type curve struct {
	points []point
	stride int // of the points that are kept; 0 means 1
	seen   int // points since the last one that is kept for good
	count  int // updates so far, for addStep
}

type point struct {
	x, y        float64
	round, step int
	fixed       bool // counted by stride; the last point may not be
}

func (c *curve) add(x, y float64) { c.append(point{x: x, y: y}) }

func (c *curve) append(p point) {
	if n := len(c.points); n > 0 && !c.points[n-1].fixed {
		c.points = c.points[:n-1]
	}
	if c.seen++; c.seen >= max(1, c.stride) {
		p.fixed, c.seen = true, 0
	}
	c.points = append(c.points, p)
	if len(c.points) < maxPoints {
		return
	}
	kept, stride := c.points[:0], max(1, c.stride)
	for i, q := range c.points {
		if i%2 == 0 {
			kept = append(kept, q)
		}
	}
	if p.fixed { // it counts for the new stride, and is the newest one only
		p.fixed, c.seen = false, stride
	}
	c.points, c.stride = append(kept, p), 2*stride
}

// addStep adds an update of a round, after removing what a process that was killed did of it and after it.
func (c *curve) addStep(round, step int, y float64) {
	for n := len(c.points); n > 0; n = len(c.points) {
		if last := c.points[n-1]; last.round < round || last.round == round && last.step < step {
			break
		}
		c.count = int(c.points[n-1].x) - 1
		c.points = c.points[:n-1]
	}
	c.count++
	c.append(point{x: float64(c.count), y: y, round: round, step: step})
}

func (c *curve) xy() (x, y []float64) {
	for _, p := range c.points {
		x, y = append(x, p.x), append(y, p.y)
	}
	return x, y
}
