package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/aggregate"
	"popri/fedsim/noise"
	"popri/model/embedding"
	"popri/scoring/query"
)

// times are when a vector must be ready and when the reports are sent.
type times struct{ ready, send time.Time }

// leastWindow is the shortest time before a deadline in which a client begins to answer: what has less finds out which
// clients are slow, or is too late.
const leastWindow = 10 * time.Second

// times divides what a round leaves: half for the vector, and a random part of the rest, without its last tenth, which
// uploads may need. An answer that was begun is sent however little is left.
func (o ResponderOptions) times(a *aggregate.Announcement, begun bool) (times, error) {
	left := time.Until(a.Ends())
	switch {
	case o.AtOnce:
		return times{ready: a.Ends()}, nil
	case left < leastWindow && !begun:
		return times{}, fmt.Errorf("client: round %d ends in %v: less than %v is too short to hide how long the texts take. "+
			"Nothing new was charged", a.Round, left.Round(time.Second), leastWindow)
	}
	ready := time.Now().Add(left / 2)
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	part := float64(binary.LittleEndian.Uint64(random[:])>>11) / (1 << 53)
	return times{ready, ready.Add(time.Duration(0.9 * part * float64(left/2)))}, nil
}

// wait waits for the time to send.
func (t times) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(t.send)):
		return nil
	}
}

// inTime is what compute returns, or zeros and no texts if it takes too long. compute may then run on for a while.
func (r *Responder) inTime(ctx context.Context, a *aggregate.Announcement, ready time.Time,
	compute func(context.Context) ([]int64, int, error)) ([]int64, int, error) {
	limited, cancel := context.WithDeadline(ctx, ready)
	defer cancel()
	type made struct {
		steps []int64
		texts int
		err   error
	}
	done := make(chan made, 1)
	go func() {
		steps, texts, err := compute(limited)
		done <- made{steps, texts, err}
	}()
	var m made
	select {
	case m = <-done:
	case <-limited.Done():
		m.err = limited.Err()
	}
	if m.err == nil || ctx.Err() != nil || !errors.Is(m.err, context.DeadlineExceeded) {
		return m.steps, m.texts, m.err
	}
	if r.Tell != nil {
		r.Tell(fmt.Sprintf("round %d: the texts took longer than half of the time until the deadline, so the vector is zeros; "+
			"fewer texts (--most) or a faster encoder help", a.Round))
	}
	return make([]int64, a.Values), 0, nil
}

// Vector is the bounded vector of a client with these texts, in steps of a grid. Without texts it is zero, and where the
// encoder fails on them: an announced encoder could fail for chosen words, and anyone who fails would be known by not
// reporting.
func Vector(ctx context.Context, asked query.Query, encoder embedding.Encoder, texts []string,
	grid noise.Grid) ([]int64, error) {
	steps, err := vector(ctx, asked, encoder, texts, grid)
	if err == nil || ctx.Err() != nil {
		return steps, err
	}
	return make([]int64, asked.Len()), nil
}

func vector(ctx context.Context, asked query.Query, encoder embedding.Encoder, texts []string,
	grid noise.Grid) (steps []int64, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("client: %v", failed)
		}
	}()
	embedded, err := fedsim.Embed(ctx, []clients.Client{{ID: "this client", Split: clients.Train, Texts: texts}},
		encoder, asked.NeedsTexts(), nil)
	if err != nil {
		return nil, err
	}
	v, err := asked.Vector(embedded, 0)
	if err != nil {
		return nil, err
	}
	return grid.RoundBounded(v, asked.Bound())
}
