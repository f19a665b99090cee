package client

import (
	"bytes"
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
	"popri/internal/fault"
	"popri/model/embedding"
	"popri/scoring/query"
	"popri/scoring/update"
)

// times are when a vector must be ready and when the reports are sent.
type times struct{ ready, send time.Time }

// leastWindow is the shortest time before a deadline in which a client begins to answer: what has less finds out which
// clients are slow, or is too late.
const leastWindow = 10 * time.Second

// ErrTooShort marks an announcement that comes too late for an answer.
var ErrTooShort = errors.New("too short to hide how long the texts take. Nothing new was charged")

// times divides what a round leaves: half for the vector, and a random part of the rest, without its last tenth and what
// uploads take. An answer that was begun is sent however little is left.
func (o ResponderOptions) times(a *aggregate.Announcement, begun bool, uploads time.Duration) (times, error) {
	left := time.Until(a.Ends())
	switch {
	case o.AtOnce:
		return times{ready: a.Ends()}, nil
	case left < leastWindow && !begun:
		return times{}, fmt.Errorf("client: round %d ends in %v: less than %v is %w", a.Round, left.Round(time.Second),
			leastWindow, ErrTooShort)
	}
	ready := time.Now().Add(left / 2)
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	part := float64(binary.LittleEndian.Uint64(random[:])>>11) / (1 << 53)
	return times{ready, ready.Add(time.Duration(part * max(0, 0.9*float64(left/2)-float64(uploads))))}, nil
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
	whole := m.err == nil && uint64(len(m.steps)) == a.Values
	if whole || ctx.Err() != nil || limited.Err() == nil { // whatever fails after the time is up, the client answers
		return m.steps, m.texts, m.err
	}
	if r.Tell != nil {
		r.Tell(fmt.Sprintf("round %d: the texts took longer than half of the time until the deadline, so the vector is zeros; "+
			"fewer texts (--most) or a faster machine help", a.Round))
	}
	return make([]int64, a.Values), 0, nil
}

// Trainer trains the small model on clients' texts. Package run has one; a program without libtorch has none.
type Trainer interface {
	// Ready opens the model for a question, whose model it must be. An error says nothing of any text.
	Ready(q update.Question) error
	// Change is what a client's texts change of the question's weights, unclipped. Calls may overlap.
	Change(ctx context.Context, q update.Question, texts []string) ([]float64, error)
}

// compute computes the vector of a client with these texts, whose norm the question bounds.
type compute func(ctx context.Context, texts []string) ([]float64, error)

// computing is how the answer to a question is computed. It fails before anything is charged, whatever the texts are.
func (r *Responder) computing(ctx context.Context, a *aggregate.Announcement, q aggregate.Question,
	asked query.Question) (compute, error) {
	switch about := q.About.(type) {
	case aggregate.Updates:
		return r.training(about.Question)
	case aggregate.Embeddings:
		encoder, err := r.encoder(ctx, a, about)
		return embedded(asked.(query.Query), encoder), err
	}
	return nil, fmt.Errorf("a question about %T", q.About)
}

// training is the clipped change of the small model's adapter.
func (r *Responder) training(q update.Question) (compute, error) {
	if r.Small == nil {
		return nil, fault.Userf("the question has the small model trained on the texts: name its folder with --small, in " +
			"popri client, because popri-client cannot train")
	}
	return func(ctx context.Context, texts []string) ([]float64, error) {
		change, err := r.Small.Change(ctx, q, texts)
		update.Clip(change, q.Clip)
		return change, err
	}, r.Small.Ready(q)
}

// embedded is a vector that follows from the texts' embeddings.
func embedded(asked query.Query, encoder embedding.Encoder) compute {
	return func(ctx context.Context, texts []string) ([]float64, error) {
		all, err := fedsim.Embed(ctx, []clients.Client{{ID: "this client", Split: clients.Train, Texts: texts}},
			encoder, asked.NeedsTexts(), nil)
		if err != nil {
			return nil, err
		}
		return asked.Vector(all, 0)
	}
}

// steps is the vector in steps of a grid. Without texts it is zero, and where the computation fails on them: an announced
// encoder or weights could make it fail for chosen words, and anyone who fails would be known by not reporting.
func (c compute) steps(ctx context.Context, asked query.Question, texts []string, grid noise.Grid) ([]int64, error) {
	steps, err := c.rounded(ctx, texts, asked.Bound(), grid)
	if ctx.Err() == nil && (err != nil || len(steps) != asked.Len()) {
		return make([]int64, asked.Len()), nil
	}
	return steps, err
}

func (c compute) rounded(ctx context.Context, texts []string, bound float64, grid noise.Grid) (steps []int64, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("client: %v", failed)
		}
	}()
	v, err := c(ctx, texts)
	if err != nil {
		return nil, err
	}
	return grid.RoundBounded(v, bound)
}

// mayUse reports whether an encoder that came with a question was agreed to, or the client has one of its own.
func (r *Responder) mayUse(announced []byte) bool {
	return r.Encoder != "" || len(announced) == 0 || r.AnnouncedEncoder || bytes.Equal(announced, r.agreed)
}

// encoder is the encoder that answers a question about embeddings.
func (r *Responder) encoder(ctx context.Context, a *aggregate.Announcement, q aggregate.Embeddings) (embedding.Encoder,
	error) {
	path := r.Encoder
	switch {
	case path != "":
	case len(a.Encoder) == 0:
		return nil, fault.Userf("the question is for the encoder %s, of which no folder is given", q.Encoder)
	case !r.mayUse(a.Encoder) && r.Confirm == nil:
		return nil, fault.Userf("the question comes with the encoder %s (SHA-256 %x), to which nobody has agreed: "+
			"name a folder with --encoder, or accept what comes with --announced-encoder", q.Encoder, a.Encoder)
	default:
		var err error
		if path, err = r.fetch(ctx, a.Encoder); err != nil {
			return nil, err
		}
	}
	encoder, err := r.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the encoder: %w", err)
	}
	// In another program, vectors differ in the last digits. What counts are the weights.
	if key := embedding.Key(encoder); !embedding.SameWeights(key, q.Encoder) {
		return nil, fault.Userf("the encoder %s has the key %s, the question is for %s", path, key, q.Encoder)
	}
	return q.With(encoder), nil
}
