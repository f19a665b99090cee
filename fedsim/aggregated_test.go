package fedsim

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/fedsim/release"
	"popri/fedsim/sealing"
	"popri/internal/numeric"
	"popri/scoring"
	"popri/scoring/query"
)

// aggregatorSeed is the seed of both aggregators' noise in tests.
var aggregatorSeed = uint64(5)

// questions are one of each kind.
func questions(t *testing.T) map[string]query.Query {
	t.Helper()
	out := map[string]query.Query{}
	for name, kind := range map[string]string{"cosine": "cosine/standardize",
		"mean": "mean/full+7", "votes": "votes/cosine/1/total"} {
		q, err := scoring.Ask(kind, 4, samples(30), "k")
		if err != nil {
			t.Fatal(err)
		}
		out[name] = q
	}
	return out
}

// twoAggregators has the reporting clients send their vectors to two aggregators, and returns both noised shares. take,
// if not nil, says whether a report arrives.
func twoAggregators(t *testing.T, proof string, q query.Query, all query.Clients, reporting []int, take func(client int,
	role aggregate.Role) bool) (
	*aggregate.Announcement, [2]*aggregate.Share) {
	t.Helper()
	const sigma = 2.5
	hash := sha256.Sum256([]byte(q.Key()))
	a := &aggregate.Announcement{Version: aggregate.Version, Nonce: "n", Round: 1, Question: hash[:], Query: q.Name(),
		Values: uint64(q.Len()),
		Bound:  q.Bound(), Sigma: sigma, Clients: uint64(all.Clients), Least: 5, Deadline: 1000, InsecureSeed: true,
		Proof: proof}
	grid, err := a.Grid()
	if err != nil {
		t.Fatal(err)
	}
	var keys []ed25519.PrivateKey
	var enrolled []ed25519.PublicKey
	for i := range all.Clients {
		seed := sha256.Sum256(fmt.Append(nil, i))
		keys = append(keys, ed25519.NewKeyFromSeed(seed[:]))
		enrolled = append(enrolled, keys[i].Public().(ed25519.PublicKey))
	}
	now := int64(1)
	var sides []*aggregate.Aggregator
	var publics []sealing.PublicKey
	for _, role := range aggregate.Roles {
		dir := t.TempDir()
		if err := sealing.GenerateKey(filepath.Join(dir, "key")); err != nil {
			t.Fatal(err)
		}
		key, err := sealing.ReadPrivateKey(filepath.Join(dir, "key"))
		if err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Create(filepath.Join(dir, "ledger"),
			ledger.Budget{Epsilon: 100, Delta: 1e-3, Mechanism: "gaussian",
				Unit: "a client", Relation: accountant.ZeroOut, Clients: all.Clients, InsecureSeededNoise: true})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		side, err := aggregate.Open(aggregate.Config{Role: role, Key: key, Enrolled: enrolled, Ledger: l,
			Dir:          filepath.Join(dir, "batches"),
			InsecureSeed: &aggregatorSeed, Now: func() time.Time { return time.Unix(now, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		defer side.Close()
		if err := side.Announce(a.Encode()); err != nil {
			t.Fatal(err)
		}
		sides, publics = append(sides, side), append(publics, key.Public())
	}
	for _, i := range reporting {
		v, err := q.Vector(all, i)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := grid.RoundBounded(v, q.Bound())
		if err != nil {
			t.Fatal(err)
		}
		var parts [2][]byte
		if parts[0], parts[1], err = a.Split(enrolled[i], steps); err != nil {
			t.Fatal(err)
		}
		for k, role := range aggregate.Roles {
			if take != nil && !take(i, role) {
				continue
			}
			content, err := aggregate.Seal(a, role, publics[k], keys[i], parts[k])
			if err == nil {
				err = sides[k].Accept(content)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	now = 1000
	var lists [2][]aggregate.ReportID
	for k, side := range sides {
		if lists[k], err = side.IDs(a.ID()); err != nil {
			t.Fatal(err)
		}
	}
	if proof != aggregate.NoProof {
		prove(t, a.ID(), sides, lists)
	}
	var shares [2]*aggregate.Share
	for k, side := range sides {
		if err := side.Aggregate(t.Context(), a.ID(), lists[1-k]); err != nil {
			t.Fatal(err)
		}
		content, err := side.Share(a.ID())
		if err == nil {
			shares[k], err = aggregate.ParseShare(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, shares
}

// prove has both aggregators check the proofs.
func prove(t *testing.T, id aggregate.ID, sides []*aggregate.Aggregator, lists [2][]aggregate.ReportID) {
	t.Helper()
	for k, side := range sides {
		half, err := sides[1-k].VerifyHalf(id)
		if err == nil {
			err = side.Verify(t.Context(), id, lists[1-k], half)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for k, side := range sides {
		err := side.Decide(id, func(from uint64) (*aggregate.Proofs, error) {
			content, err := sides[1-k].Records(id, from)
			if err != nil {
				return nil, err
			}
			return aggregate.ParseProofs(content)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// behind collects a round of clients behind two aggregators.
func (r *run) behind(c Clients) (*release.Release, error) {
	r.t.Helper()
	l, err := ledger.Open(r.ledgerPath())
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	config := r.config
	config.Ledger = l
	f, err := New(c, Aggregated{r.mechanism}, config)
	if err != nil {
		r.t.Fatal(err)
	}
	return f.Collect(r.request(1))
}

// simulated are clients of whom some report.
func (r *run) simulated(arrived func(int) []int) Clients {
	return Reporting{Rounding: Embedded{embedded(r.t, testClients)}, Least: 5, Arrived: arrived, InsecureSeed: r.seed}
}

// TestAggregatedIsTheSimulation: with the same seed, clients behind two aggregators, some of whom are gone before or
// between their two uploads, give the release of the simulation with those who are left, with and without range proofs.
func TestAggregatedIsTheSimulation(t *testing.T) {
	for _, proof := range []string{aggregate.NoProof, aggregate.RangeProof} {
		testAggregated(t, proof)
	}
}

func testAggregated(t *testing.T, proof string) {
	reporting := slices.DeleteFunc(numeric.Indices(testClients), func(i int) bool { return i%5 == 1 })
	left := slices.DeleteFunc(slices.Clone(reporting), func(i int) bool { return i%7 == 2 })
	there := newRun(t, 1, &aggregatorSeed)
	there.mechanism.Sigma = 2.5
	got, err := there.behind(Remote{testClients, func(q release.Request) ([]int64, int, error) {
		a, shares := twoAggregators(t, proof, q.Query.(query.Query), embedded(t, testClients), reporting,
			func(i int, role aggregate.Role) bool {
				return i%7 != 2 || role == aggregate.Helper == (i%2 == 0)
			})
		return aggregate.Merge(a, shares[0], shares[1])
	}})
	if err != nil {
		t.Fatal(err)
	}
	here := newRun(t, 1, &aggregatorSeed)
	here.mechanism.Sigma = 2.5
	want, err := here.behind(here.simulated(func(int) []int { return left }))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Encode(), want.Encode()) || got.Clients != len(left) || got.Noises != 2 {
		t.Errorf("the release of %d clients is not that of the simulation with %d", got.Clients, len(left))
	}
	if got, want := here.charges(), there.charges(); !slices.Equal(got, want) || got[0].Clients != len(left) ||
		got[0].Sigma != 2.5 {
		t.Errorf("charges %+v, want %+v", got, want)
	}
}

// TestFewReports: below the least number nothing is summed, drawn or charged.
func TestFewReports(t *testing.T) {
	r := newRun(t, 1, nil)
	few := r.simulated(func(int) []int { return []int{1, 2, 3, 4} })
	if _, err := r.behind(few); !errors.Is(err, ErrFew) || len(r.charges()) != 0 {
		t.Errorf("%v, charges %+v", err, r.charges())
	}
}

// TestUnusableSumIsCharged: a noised sum that was seen costs, also if it is refused, and once.
func TestUnusableSumIsCharged(t *testing.T) {
	r := newRun(t, 2, nil)
	seen := &Unusable{Hash: ledger.ContentHash([]byte("shares")), Reports: 30, Err: aggregate.ErrOutOfRange}
	for range 2 {
		_, err := r.behind(Remote{testClients, func(release.Request) ([]int64, int, error) { return nil, 0, seen }})
		if !errors.Is(err, aggregate.ErrOutOfRange) {
			t.Fatal(err)
		}
	}
	if c := r.charges(); len(c) != 1 || c[0].ReleaseHash != seen.Hash || c[0].Clients != 30 {
		t.Errorf("charges %+v", c)
	}
}

// TestOwnCoin: if each client's own coin decides, a Poisson sample is charged at its rate, and the published number of
// clients follows from the number of reports alone.
func TestOwnCoin(t *testing.T) {
	r := newRun(t, 1, nil)
	r.mechanism.Sampling, r.mechanism.Cohort = ledger.Poisson, testClients/4
	got, err := r.behind(r.simulated(func(int) []int { return numeric.Indices(testClients - 8) }))
	if err != nil {
		t.Fatal(err)
	}
	if c := r.charges(); got.Clients != 8 || c[0].Clients != 8 || c[0].SamplingRate != 0.25 || c[0].Cohort != 10 {
		t.Errorf("%d clients, charges %+v", got.Clients, c)
	}
}

// TestArriving: each client's reports arrive with the stated probability on average over a day, rounds near each other
// hear much the same clients, and nothing depends on the clients' texts.
func TestArriving(t *testing.T) {
	const clients, probability = 4000, 0.4
	arriving := Participation{Clients: clients, Available: probability, Seed: 3}.Arriving
	rounds := make([][]bool, 2*day)
	counts := make([]int, clients)
	for r := range rounds {
		rounds[r] = make([]bool, clients)
		previous := -1
		for _, i := range arriving(r + 1) {
			if i <= previous || i >= clients {
				t.Fatalf("client %d follows client %d", i, previous)
			}
			previous = i
			rounds[r][i] = true
			counts[i]++
		}
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	if mean := float64(total) / float64(clients*len(rounds)); math.Abs(mean-probability) > 0.01 {
		t.Errorf("reports arrive with probability %.4f, want %g", mean, probability)
	}
	both := func(a, b []bool) float64 { // of those who arrive in a, the share that arrives in b
		n, m := 0, 0
		for i := range a {
			if a[i] {
				n++
				if b[i] {
					m++
				}
			}
		}
		return float64(m) / float64(n)
	}
	if next, opposite := both(rounds[0], rounds[1]), both(rounds[0], rounds[day/2]); next < probability+0.1 ||
		opposite > probability-0.1 {
		t.Errorf("of those who arrive, %.3f arrive in the next round and %.3f half a day later", next, opposite)
	}
	if all := (Participation{Clients: clients, Available: 1, Seed: 3}).Arriving(1); len(all) != clients {
		t.Errorf("with probability 1, %d of %d arrive", len(all), clients)
	}
}
