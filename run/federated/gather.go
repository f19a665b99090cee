package federated

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"popri/accountant/guarantee"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/service"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/model/embedding"
)

// Aggregators are the two that a run asks.
type Aggregators map[aggregate.Role]*service.Remote

// both does the same with both at once. If one refuses, the other is not waited for.
func (a Aggregators) both(ctx context.Context, do func(context.Context, aggregate.Role, *service.Remote) error) error {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	var done sync.WaitGroup
	errs := make([]error, len(aggregate.Roles))
	for i, role := range aggregate.Roles {
		done.Go(func() {
			err := do(either, role, a[role])
			switch {
			case errors.Is(err, context.Canceled) && ctx.Err() == nil:
				return // the other one refuses; err may hold why this one was waited for
			case errors.As(err, new(*service.Refused)):
				cancel()
			}
			if err != nil {
				errs[i] = fmt.Errorf("the %s: %w", role, err)
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}

// FewError ends a run whose round got fewer reports than aggregate.least. Nothing was summed or charged; the run
// announces the question again when it is resumed.
type FewError struct {
	Round int
	Err   error
}

func (e *FewError) Error() string { return e.Err.Error() }

// Unwrap returns what the aggregators say.
func (e *FewError) Unwrap() error { return e.Err }

// Resumable returns true.
func (e *FewError) Resumable() bool { return true }

// Gather returns the Ask of [fedsim.Remote]: it announces the question of a round of the run in dir to both
// aggregators and waits for their noised shares. A run that was killed meanwhile continues with the same announcement.
// Without aggregators, as in an evaluation, asking is an error. tell, if not nil, gets a line when the waiting begins, and
// one if uploads were refused; rundir.Refusals in the round's folder counts them.
func Gather(ctx context.Context, dir string, c configs.Config, sigma float64, clients int, encoder embedding.Encoder,
	to Aggregators, tell func(string)) func(release.Request) ([]int64, int, error) {
	if to == nil {
		return func(release.Request) ([]int64, int, error) {
			return nil, 0, fault.Userf("the clients are elsewhere, and an evaluation asks none: popri run --resume --out %s", dir)
		}
	}
	if tell != nil {
		for role, remote := range to {
			remote.Tell(role, tell)
		}
	}
	return func(r release.Request) (steps []int64, reports int, err error) {
		g := gathering{r, c, sigma, clients, filepath.Join(r.Dir, rundir.Announcement)}
		asked, err := ask(r, dir, c, clients, encoder)
		if err != nil {
			return nil, 0, err
		}
		a, err := g.announcement(asked)
		if err != nil {
			return nil, 0, err
		}
		err = to.both(ctx, func(ctx context.Context, _ aggregate.Role, remote *service.Remote) error {
			return announce(ctx, remote, a, asked)
		})
		if err != nil {
			return nil, 0, g.over(err)
		}
		if tell != nil {
			tell(fmt.Sprintf("round %d is announced to %d clients; reports are taken until %s", r.Round, clients,
				a.Ends().Format(time.DateTime)))
		}
		shares := map[aggregate.Role]*aggregate.Share{}
		var lock sync.Mutex
		err = to.both(ctx, func(ctx context.Context, role aggregate.Role, remote *service.Remote) error {
			share, err := remote.Share(ctx, a.ID())
			lock.Lock()
			defer lock.Unlock()
			shares[role] = share
			return err
		})
		if err != nil {
			return nil, 0, g.over(err)
		}
		leader, helper := shares[aggregate.Leader], shares[aggregate.Helper]
		refused := guarantee.Refusals{Unproved: int(max(leader.Refused, helper.Refused)),
			Invalid: int(max(leader.Invalid, helper.Invalid))}
		if err := atomicfile.WriteJSON(filepath.Join(r.Dir, rundir.Refusals), refused); err != nil {
			return nil, 0, err
		}
		if refused != (guarantee.Refusals{}) && tell != nil {
			tell(fmt.Sprintf("round %d: %v", r.Round, refused))
		}
		steps, reports, err = aggregate.Merge(a, leader, helper)
		if err != nil {
			seen := sha256.Sum256(append(leader.Encode(), helper.Encode()...))
			err = &fedsim.Unusable{Hash: hex.EncodeToString(seen[:]), Reports: int(max(leader.Reports, a.Least)), Err: err,
				Charged: g.forget}
		}
		return steps, reports, err
	}
}

// gathering is a round that is asked.
type gathering struct {
	release.Request
	c       configs.Config
	sigma   float64
	clients int
	path    string // of the announcement
}

// announcement is the round's announcement: the one on disk, or a new one.
func (g *gathering) announcement(asked question) (*aggregate.Announcement, error) {
	content, err := os.ReadFile(asked.path)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(content)
	a := &aggregate.Announcement{Version: aggregate.Version, Nonce: rand.Text(), Round: uint64(g.Round),
		Question: hash[:], Query: g.Query.Name(), Values: uint64(g.Query.Len()), Bound: g.Query.Bound(), Sigma: g.sigma,
		Clients: uint64(g.clients), Least: uint64(g.c.Aggregate.Least),
		Deadline:     uint64(time.Now().Add(time.Duration(g.c.Aggregate.Minutes*float64(time.Minute))).Unix()) + 1,
		InsecureSeed: g.c.Privacy.InsecureSeededNoise}
	if g.c.Aggregate.Proof == aggregate.RangeProof {
		a.Proof = aggregate.RangeProof
	}
	if g.c.Fed.ClientsPerRound > 0 {
		a.Rate = float64(g.c.Fed.ClientsPerRound) / float64(g.clients)
	}
	if filepath.Base(asked.encoder) == rundir.Encoder {
		content, err := os.ReadFile(asked.encoder)
		if err != nil {
			return nil, err
		}
		hash := sha256.Sum256(content)
		a.Encoder = hash[:]
	}
	content, err = os.ReadFile(g.path)
	if err == nil {
		earlier, err := aggregate.ParseAnnouncement(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.path, err)
		}
		a.Nonce, a.Deadline = earlier.Nonce, earlier.Deadline
		if !bytes.Equal(a.Encode(), content) {
			return nil, fmt.Errorf("%s announces another question than the round's", g.path)
		}
		return a, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a, atomicfile.WriteBytes(g.path, a.Encode())
}

// over makes an error of an announcement that will have no shares, and removes it, so that the question can be asked
// again.
func (g *gathering) over(err error) error {
	refused, ok := errors.AsType[*service.Refused](err)
	if ok && refused.Outcome == aggregate.Budget {
		return fmt.Errorf("%w: %w", ledger.ErrBudget, err)
	}
	if !ok || refused.Outcome != aggregate.Few && refused.Outcome != aggregate.Late {
		return err
	}
	return errors.Join(&FewError{g.Round, err}, g.forget())
}

func (g *gathering) forget() error { return os.Remove(g.path) }

// announce gives an aggregator the announcement, and the files that it does not have.
func announce(ctx context.Context, remote *service.Remote, a *aggregate.Announcement, asked question) error {
	paths := []string{asked.path}
	if len(a.Encoder) > 0 {
		paths = append(paths, asked.encoder)
	}
	for left := 10; ; left-- { // another run's announcement removes them while this one waits
		err := remote.Announce(ctx, a)
		if service.OutcomeOf(err) != service.Missing || left == 0 {
			return err
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := remote.PutFile(ctx, content); err != nil {
				return err
			}
		}
	}
}
