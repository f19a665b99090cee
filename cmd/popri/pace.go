package main

import "time"

// pace computes how fast a stage is from its own updates. Counting begins at the first one, because what comes before
// it (loading, first kernels, work of an earlier process) says nothing of the rest.
type pace struct {
	since time.Time
	first int // done then
}

// leastPace is the time after which a pace is worth telling.
const leastPace = 2 * time.Second

// measure notes how many of total are done, and returns the rate per second and the time left; ok is false as long as
// they are not known.
func (p *pace) measure(now time.Time, done, total int) (rate float64, left time.Duration, ok bool) {
	if p.since.IsZero() || done < p.first {
		p.since, p.first = now, done
		return 0, 0, false
	}
	spent := now.Sub(p.since)
	if done == p.first || spent < leastPace {
		return 0, 0, false
	}
	rate = float64(done-p.first) / spent.Seconds()
	return rate, time.Duration(float64(total-done) / rate * float64(time.Second)), true
}
