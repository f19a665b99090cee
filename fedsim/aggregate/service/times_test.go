package service_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/rangeproof"
	"popri/fedsim/sealing"
	"popri/internal/fault"
	"popri/internal/rng"
)

// Options say what is timed.
type Options struct {
	Clients int
	Values  int    // of a vector
	Proof   string // [aggregate.NoProof] or [aggregate.RangeProof]
	Dir     string // for the aggregators' files; it must be empty
}

// Times are what one kind of report takes, on all cores. Rates are reports a second; 0 where there is nothing of the
// kind.
type Times struct {
	Values      int             `json:"values"`
	Proof       string          `json:"proof"` // none or range
	Clients     int             `json:"clients"`
	Threads     int             `json:"threads"`
	ClientBytes map[string]int  `json:"client_bytes"` // of a report to each aggregator
	Split       float64         `json:"split"`        // vectors split into shares, with the proof
	Seal        float64         `json:"seal"`         // pairs of reports sealed and signed
	Sides       map[string]Side `json:"aggregators"`
}

// Side is what an aggregator does.
type Side struct {
	Take        float64 `json:"take"`                   // signature, decryption and disk
	Intersect   float64 `json:"intersect"`              // identifiers compared
	Verify      float64 `json:"verify,omitempty"`       // proofs checked
	Decide      float64 `json:"decide,omitempty"`       // records of both compared
	RecordBytes int     `json:"record_bytes,omitempty"` // told to the other aggregator of each report
	Sum         float64 `json:"sum"`                    // shares decrypted and summed, with noise; proved ones are summed when checked
}

// Run has made-up clients report once. The aggregators must agree on a sum, or it is an error.
func Run(ctx context.Context, o Options) (*Times, error) {
	if o.Clients < 2 || o.Values < 1 {
		return nil, fault.Userf("%d clients with %d values, want at least 2 and 1", o.Clients, o.Values)
	}
	hash := sha256.Sum256([]byte("question"))
	a := &aggregate.Announcement{Version: aggregate.Version, Nonce: "n", Round: 1, Question: hash[:], Query: "made up",
		Values: uint64(o.Values), Bound: 1, Sigma: 1.5, Clients: uint64(o.Clients), Least: 2, Proof: o.Proof,
		Deadline: uint64(time.Now().Add(24 * time.Hour).Unix())}
	if err := a.Validate(); err != nil {
		return nil, fault.User(err)
	}
	w := &work{Announcement: a, sides: map[aggregate.Role]*aggregate.Aggregator{},
		keys: map[aggregate.Role]sealing.PublicKey{}}
	for i := range o.Clients {
		seed := sha256.Sum256(fmt.Append(nil, i))
		w.clients = append(w.clients, ed25519.NewKeyFromSeed(seed[:]))
	}
	for _, role := range aggregate.Roles {
		l, err := w.open(role, filepath.Join(o.Dir, string(role)))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		defer w.sides[role].Close()
	}
	proof := "none"
	if o.Proof != aggregate.NoProof {
		proof = o.Proof
	}
	t := &Times{Values: o.Values, Proof: proof, Clients: o.Clients, Threads: runtime.GOMAXPROCS(0),
		ClientBytes: map[string]int{},
		Sides:       map[string]Side{}}
	return t, errors.Join(w.report(t), w.settle(ctx, t))
}

// work is two aggregators and their clients.
type work struct {
	*aggregate.Announcement
	clients []ed25519.PrivateKey
	sides   map[aggregate.Role]*aggregate.Aggregator
	keys    map[aggregate.Role]sealing.PublicKey
}

func (w *work) open(role aggregate.Role, dir string) (*ledger.Ledger, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "key")
	if err := sealing.GenerateKey(path); err != nil {
		return nil, err
	}
	key, err := sealing.ReadPrivateKey(path)
	if err != nil {
		return nil, err
	}
	l, err := ledger.Create(filepath.Join(dir, "ledger"),
		ledger.Budget{Epsilon: 1e9, Delta: 1e-12, Mechanism: "gaussian",
			Unit: "a made-up client", Relation: accountant.ZeroOut, Clients: len(w.clients)})
	if err != nil {
		return nil, err
	}
	var enrolled []ed25519.PublicKey
	for _, c := range w.clients {
		enrolled = append(enrolled, c.Public().(ed25519.PublicKey))
	}
	side, err := aggregate.Open(aggregate.Config{Role: role, Key: key, Enrolled: enrolled, Ledger: l,
		Dir: filepath.Join(dir, "batches")})
	if err == nil {
		err = side.Announce(w.Encode())
	}
	w.sides[role], w.keys[role] = side, key.Public()
	return l, err
}

// memory bounds the bytes of reports that exist at a time.
const memory = 64 << 20

// report has all clients report to both.
func (w *work) report(t *Times) error {
	grid, err := w.Grid()
	if err != nil {
		return err
	}
	some := max(1, int(memory/(aggregate.MaxReport(w.Announcement, aggregate.Leader)+1)))
	var split, seal time.Duration
	take := map[aggregate.Role]time.Duration{}
	r := rng.New(1, "workload")
	for begin := 0; begin < len(w.clients); begin += some {
		n := min(some, len(w.clients)-begin)
		vectors := make([][]int64, n)
		for i := range vectors { // uniform in a cube within the bound
			v := make([]float64, w.Values)
			for j := range v {
				v[j] = w.Bound * (2*r.Float64() - 1) / float64(w.Values)
			}
			if vectors[i], err = grid.RoundBounded(v, w.Bound); err != nil {
				return err
			}
		}
		shares, reports := make([]map[aggregate.Role][]byte, n), make([]map[aggregate.Role][]byte, n)
		err := timed(&split, n, func(i int) error {
			leader, helper, err := w.Split(w.clients[begin+i].Public().(ed25519.PublicKey), vectors[i])
			shares[i] = map[aggregate.Role][]byte{aggregate.Leader: leader, aggregate.Helper: helper}
			return err
		})
		if err != nil {
			return err
		}
		err = timed(&seal, n, func(i int) (err error) {
			reports[i] = map[aggregate.Role][]byte{}
			for _, role := range aggregate.Roles {
				if reports[i][role], err = aggregate.Seal(w.Announcement, role, w.keys[role], w.clients[begin+i],
					shares[i][role]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, role := range aggregate.Roles {
			var took time.Duration
			if err := timed(&took, n, func(i int) error { return w.sides[role].Accept(reports[i][role]) }); err != nil {
				return err
			}
			take[role] += took
			t.ClientBytes[string(role)] = len(reports[0][role])
		}
	}
	t.Split, t.Seal = w.rate(split), w.rate(seal)
	for _, role := range aggregate.Roles {
		t.Sides[string(role)] = Side{Take: w.rate(take[role])}
	}
	return nil
}

// settle has both aggregators make their shares.
func (w *work) settle(ctx context.Context, t *Times) error {
	id := w.ID()
	ids := map[aggregate.Role][]aggregate.ReportID{}
	for role, side := range w.sides {
		var err error
		if ids[role], err = side.IDs(id); err != nil {
			return err
		}
	}
	records := map[aggregate.Role][]*aggregate.Proofs{}
	for _, role := range aggregate.Roles {
		side, s := w.sides[role], t.Sides[string(role)]
		begun := time.Now()
		if both := aggregate.Intersect(ids[role], ids[role.Peer()]); len(both) != len(w.clients) {
			return fmt.Errorf("workload: both hold %d reports, want %d", len(both), len(w.clients))
		}
		s.Intersect = w.rate(time.Since(begun))
		if w.Proof != aggregate.NoProof {
			half, err := w.sides[role.Peer()].VerifyHalf(id)
			if err != nil {
				return err
			}
			begun := time.Now()
			if err := side.Verify(ctx, id, ids[role.Peer()], half); err != nil {
				return err
			}
			s.Verify = w.rate(time.Since(begun))
			if records[role], s.RecordBytes, err = w.records(side); err != nil {
				return err
			}
		}
		t.Sides[string(role)] = s
	}
	shares := map[aggregate.Role]*aggregate.Share{}
	for _, role := range aggregate.Roles {
		side, s := w.sides[role], t.Sides[string(role)]
		if w.Proof != aggregate.NoProof {
			page := 0
			begun := time.Now()
			err := side.Decide(id, func(uint64) (*aggregate.Proofs,
				error) {
				page++
				return records[role.Peer()][page-1], nil
			})
			if err != nil {
				return err
			}
			s.Decide = w.rate(time.Since(begun))
		}
		begun := time.Now()
		if err := side.Aggregate(ctx, id, ids[role.Peer()]); err != nil {
			return err
		}
		s.Sum = w.rate(time.Since(begun))
		t.Sides[string(role)] = s
		content, err := side.Share(id)
		if err == nil {
			shares[role], err = aggregate.ParseShare(content)
		}
		if err != nil {
			return err
		}
	}
	_, reports, err := aggregate.Merge(w.Announcement, shares[aggregate.Leader], shares[aggregate.Helper])
	if err == nil && reports != len(w.clients) {
		err = fmt.Errorf("workload: %d reports count, want %d", reports, len(w.clients))
	}
	return err
}

// records are all messages of an aggregator about proofs, and the bytes of a record.
func (w *work) records(side *aggregate.Aggregator) (pages []*aggregate.Proofs, size int, err error) {
	bits, err := w.Bits()
	if err != nil {
		return nil, 0, err
	}
	scheme, err := rangeproof.New(int(w.Values), bits, nil)
	if err != nil {
		return nil, 0, err
	}
	size = scheme.RecordBytes()
	total := 0
	for at := 0; at < len(w.clients); {
		content, err := side.Records(w.ID(), uint64(at))
		if err != nil {
			return nil, 0, err
		}
		p, err := aggregate.ParseProofs(content)
		if err != nil {
			return nil, 0, err
		}
		pages, total = append(pages, p), total+len(p.Records)
		at = total / size
	}
	return pages, size, nil
}

// rate is the number of clients a second.
func (w *work) rate(took time.Duration) float64 {
	return float64(len(w.clients)) / max(took.Seconds(), 1e-9)
}

// timed does something n times on all cores and adds the time that it takes.
func timed(took *time.Duration, n int, do func(i int) error) error {
	begun := time.Now()
	var done sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	for w := range workers {
		done.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = do(i)
			}
		})
	}
	done.Wait()
	*took += time.Since(begun)
	return errors.Join(errs...)
}
