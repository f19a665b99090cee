package service_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/rangeproof"
	"popri/fedsim/aggregate/service"
	"popri/fedsim/release"
	"popri/fedsim/sealing"
	"popri/internal/rng"
	"popri/scoring"
	"popri/scoring/query"
	"popri/testkit/testfederation"
	"popri/testkit/testfile"
)

const (
	dim    = 40
	checks = 24
	bound  = 1
	sigma  = 3
	// patience is the time of a round on a busy machine.
	patience = 5 * time.Minute
)

// number is the value of an environment variable, by which make federation asks for more than the tests do.
func number(t *testing.T, name string, or int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s is %q, want a number", name, text)
	}
	return n
}

// federation is the clients of a federation, their trainer and what the test knows of them.
type federation struct {
	*testing.T
	*testfederation.Federation
	seed    uint64
	asked   scoring.Mean
	all     query.Clients
	people  []*person
	trainer map[aggregate.Role]*service.Remote
	keys    map[aggregate.Role]sealing.PublicKey
	there   *ledger.Ledger                              // of the trainer
	here    *ledger.Ledger                              // of the simulation
	collect func(release.Request) ([]int64, int, error) // of the round that is asked
}

// person is a client with connections of its own.
type person struct {
	key     ed25519.PrivateKey
	remotes map[aggregate.Role]*service.Remote
	last    []byte // its report of an earlier round to the leader
}

func newFederation(t *testing.T, n int) *federation {
	t.Helper()
	f := &federation{T: t, seed: 7, trainer: map[aggregate.Role]*service.Remote{},
		keys: map[aggregate.Role]sealing.PublicKey{}}
	f.Federation = testfederation.New(t, n, &f.seed)
	var err error
	if f.asked, err = scoring.NewMean(dim, scoring.MeanOptions{Full: true, Bound: bound, Checks: checks},
		"k"); err != nil {
		t.Fatal(err)
	}
	f.all = query.Clients{Means: query.Means{Clients: n, Dim: dim}}
	r := rng.New(1, "means")
	for range n * dim {
		f.all.Data = append(f.all.Data, r.NormFloat64())
	}
	for _, role := range aggregate.Roles {
		f.trainer[role] = f.Remote(role, identity.Trainer)
		if f.keys[role], err = f.Party(role).SealingKey(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		key, err := identity.ReadClientKey(identity.ClientKeyPath(f.Dir, i+1))
		if err != nil {
			t.Fatal(err)
		}
		f.people = append(f.people, &person{key: key})
	}
	f.connect()
	t.Cleanup(f.disconnect)
	for path, l := range map[string]**ledger.Ledger{"there": &f.there, "here": &f.here} {
		if *l, err = ledger.Create(filepath.Join(t.TempDir(), path),
			ledger.Budget{Epsilon: 1e6, Delta: 1e-5, Mechanism: "gaussian", Unit: "a client",
				Relation: accountant.ZeroOut, Clients: n, InsecureSeededNoise: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*l).Close() })
	}
	return f
}

// connect gives all clients connections of their own.
func (f *federation) connect() {
	for _, p := range f.people {
		p.remotes = map[aggregate.Role]*service.Remote{}
		for _, role := range aggregate.Roles {
			p.remotes[role] = f.Remote(role, "")
		}
	}
}

func (f *federation) disconnect() {
	for _, p := range f.people {
		for _, r := range p.remotes {
			r.Close()
		}
		p.remotes = nil
	}
}

func (f *federation) least() int { return len(f.people) / 4 }

// collector charges a ledger for clients behind aggregators, or for their simulation.
func (f *federation) collector(c fedsim.Clients, l *ledger.Ledger) *fedsim.Federation {
	f.T.Helper()
	collector, err := fedsim.New(c, fedsim.Aggregated{Gaussian: fedsim.Gaussian{Sigma: sigma}},
		fedsim.Config{Ledger: l, InsecureSeed: &f.seed})
	if err != nil {
		f.Fatal(err)
	}
	return collector
}

// remote are the clients of the federation.
func (f *federation) remote() fedsim.Clients {
	return fedsim.Remote{Enrolled: len(f.people), Ask: func(q release.Request) ([]int64, int, error) { return f.collect(q) }}
}

// round is what the test knows of a round.
type round struct {
	*aggregate.Announcement
	mutex   sync.Mutex
	counted []int                       // whose reports both aggregators acknowledged
	lies    []int64                     // the sum of what those among them sent instead of their vectors, less the vectors
	bare    map[aggregate.Role][]uint64 // the sum of the counted shares, without noise
	views   map[aggregate.Role]*[256]float64
	refused map[aggregate.Outcome]int
	// With a range proof: the scheme, the sums of the counted shares in its field instead of bare, and how many
	// reports' proofs do not hold.
	scheme   *rangeproof.Scheme
	field    map[aggregate.Role]rangeproof.Vector
	unproved int
}

// own is the share of the values of a client's report with a range proof.
func (r *round) own(role aggregate.Role, client ed25519.PrivateKey, share []byte) (rangeproof.Vector, error) {
	h := sha256.New()
	id := r.ID()
	h.Write(append([]byte("popri report 1\n"), id[:]...))
	h.Write(client.Public().(ed25519.PublicKey))
	party := map[aggregate.Role]int{aggregate.Leader: rangeproof.Leader, aggregate.Helper: rangeproof.Helper}[role]
	_, own, err := r.scheme.Check([32]byte{}, [16]byte(h.Sum(nil)[:16]), party, share)
	return own, err
}

// ask announces a round, lets people behave, passes the deadline and merges.
func (f *federation) ask(number, attempt int, behave func(*round)) (*round, func(release.Request) ([]int64, int, error)) {
	f.T.Helper()
	question := fmt.Appendf(nil, "question of round %d, %d", number, attempt)
	hash := sha256.Sum256(question)
	a := &aggregate.Announcement{Version: aggregate.Version, Nonce: fmt.Sprint("n", attempt), Round: uint64(number),
		Question: hash[:], Query: f.asked.Name(),
		Values: uint64(f.asked.Len()), Bound: bound, Sigma: sigma, Clients: uint64(len(f.people)),
		Least:    uint64(f.least()),
		Deadline: uint64(f.Now().Add(time.Hour / 2).Unix()), InsecureSeed: true}
	if number%3 != 1 {
		a.Proof = aggregate.RangeProof
	}
	r := &round{Announcement: a, lies: make([]int64, a.Values), bare: map[aggregate.Role][]uint64{},
		refused: map[aggregate.Outcome]int{},
		views:   map[aggregate.Role]*[256]float64{}}
	for _, role := range aggregate.Roles {
		r.bare[role], r.views[role] = make([]uint64, a.Values), &[256]float64{}
	}
	if a.Proof == aggregate.RangeProof {
		bits, err := a.Bits()
		if err != nil {
			f.Fatal(err)
		}
		id := a.ID()
		if r.scheme, err = rangeproof.New(int(a.Values), bits,
			append([]byte("popri range 1\n"), id[:]...)); err != nil {
			f.Fatal(err)
		}
		r.field = map[aggregate.Role]rangeproof.Vector{aggregate.Leader: r.scheme.Zero(),
			aggregate.Helper: r.scheme.Zero()}
	}
	return r, func(release.Request) ([]int64, int, error) {
		ctx, cancel := context.WithTimeout(f.Context(), patience)
		defer cancel()
		shares := map[aggregate.Role]*aggregate.Share{}
		for _, remote := range f.trainer {
			if err := errors.Join(remote.PutFile(ctx, question), remote.Announce(ctx, a)); err != nil {
				return nil, 0, err
			}
		}
		behave(r)
		f.Advance()
		if number%3 == 0 { // killed while they sum
			for _, role := range aggregate.Roles {
				f.Kill(role)
				f.Start(role)
			}
		}
		for role, remote := range f.trainer {
			var err error
			if shares[role], err = remote.Share(ctx, a.ID()); err != nil {
				return nil, 0, err
			}
		}
		for role, share := range shares {
			if int(share.Refused) != r.unproved {
				return nil, 0, fmt.Errorf("the %s refused %d proofs, %d do not hold", role, share.Refused, r.unproved)
			}
		}
		steps, reports, err := aggregate.Merge(a, shares[aggregate.Leader], shares[aggregate.Helper])
		if errors.Is(err, aggregate.ErrOutOfRange) {
			seen := sha256.Sum256(append(shares[aggregate.Leader].Encode(), shares[aggregate.Helper].Encode()...))
			err = &fedsim.Unusable{Hash: fmt.Sprintf("%x", seen), Reports: len(r.counted), Err: err}
		}
		return steps, reports, err
	}
}

// behaviour is what a client does in a round.
type behaviour int

const (
	honest    behaviour = iota
	gone                // sends nothing
	half                // is killed between its two uploads
	stalled             // never ends its upload
	malformed           // bytes that are no report
	oversized           // more bytes than any report has
	replaying           // its report of an earlier round
	elsewhere           // a report about an announcement that was never made
	broken              // a vector that is not a number
	forging             // under another's name
	liar                // a vector of ten times the bound or, with proofs, one whose proof does not hold
)

// drawn is a client's behaviour: of five, one is not honest.
func drawn(r *rand.Rand) behaviour {
	if r.IntN(5) > 0 {
		return honest
	}
	return behaviour(1 + r.IntN(int(liar)))
}

// act has client i behave.
func (f *federation) act(r *round, i int, does behaviour) {
	p := f.people[i]
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	grid, err := r.Grid()
	if err != nil {
		f.Error(err)
		return
	}
	v, err := f.asked.Vector(f.all, i)
	if err != nil {
		f.Error(err)
		return
	}
	steps, err := grid.RoundBounded(v, bound)
	if err != nil {
		f.Error(err)
		return
	}
	sent := slices.Clone(steps)
	if does == liar && r.scheme == nil {
		for j := range sent {
			sent[j] *= 10
		}
	}
	shares := map[aggregate.Role][]byte{}
	shares[aggregate.Leader], shares[aggregate.Helper], err = r.Split(p.key.Public().(ed25519.PublicKey), sent)
	if err != nil {
		f.Error(err)
		return
	}
	if does == liar && r.scheme != nil {
		part := shares[aggregate.Roles[i%2]]
		part[i%len(part)] ^= 1
	}
	seal := func(a *aggregate.Announcement, role aggregate.Role, key ed25519.PrivateKey) []byte {
		content, err := aggregate.Seal(a, role, f.keys[role], key, shares[role])
		if err != nil {
			f.Error(err)
		}
		return content
	}
	refused := func(content []byte, want ...aggregate.Outcome) {
		err := p.remotes[aggregate.Leader].Report(ctx, content)
		got := service.OutcomeOf(err)
		if !slices.Contains(want, got) {
			f.Errorf("client %d, behaviour %d: %v, want %v", i, does, err, want)
		}
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.refused[got]++
	}
	switch does {
	case gone:
		return
	case stalled:
		f.stall(ctx, p, len(seal(r.Announcement, aggregate.Leader, p.key)))
		return
	case malformed:
		refused([]byte("no report"), aggregate.Malformed)
		return
	case oversized:
		refused(make([]byte, aggregate.MaxReport(r.Announcement, aggregate.Leader)+1), "too_large")
		return
	case replaying:
		if p.last != nil {
			if int64(len(p.last)) > aggregate.MaxReport(r.Announcement, aggregate.Leader) { // it had a proof
				refused(p.last, "too_large")
			} else {
				refused(p.last, aggregate.Late)
			}
		}
		return
	case elsewhere:
		other := *r.Announcement
		other.Round++
		refused(seal(&other, aggregate.Leader, p.key), aggregate.Unannounced)
		return
	case broken:
		v[0] = math.NaN()
		if _, err := grid.RoundBounded(v, bound); err == nil {
			f.Error("a vector that is not a number is rounded")
		}
		return
	case forging:
		content := seal(r.Announcement, aggregate.Leader, f.people[(i+1)%len(f.people)].key)
		content[len(content)-1] ^= 1
		refused(content, aggregate.Forged)
		return
	}
	for _, role := range aggregate.Roles {
		content := seal(r.Announcement, role, p.key)
		if does == half && role == aggregate.Roles[i%2] {
			continue
		}
		if err := p.remotes[role].Report(ctx, content); err != nil {
			f.Errorf("client %d, report to the %s: %v", i, role, err)
			return
		}
		if role == aggregate.Leader {
			p.last = content
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for role, share := range shares {
		for _, b := range share {
			r.views[role][b]++
		}
	}
	if does == half {
		return
	}
	if r.scheme != nil && does == liar {
		r.unproved++
		return
	}
	r.counted = append(r.counted, i)
	for role := range r.field {
		own, err := r.own(role, p.key, shares[role])
		if err != nil {
			f.Error(err)
			return
		}
		r.field[role].AddAssign(own)
	}
	if r.scheme != nil {
		return
	}
	for j := range sent {
		r.lies[j] += sent[j] - steps[j]
		own := binary.LittleEndian.Uint64(shares[aggregate.Leader][8*j:])
		r.bare[aggregate.Leader][j] += own
		r.bare[aggregate.Helper][j] += uint64(sent[j]) - own
	}
}

// stall begins an upload and does not end it.
func (f *federation) stall(ctx context.Context, p *person, length int) {
	secrets, err := f.ClientTLS("")
	if err != nil {
		f.Error(err)
		return
	}
	own := &http.Client{Transport: &http.Transport{TLSClientConfig: secrets, ForceAttemptHTTP2: true}}
	defer own.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // longer than the aggregator waits
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Party(aggregate.Leader).URL+"/v1/reports",
		endless{ctx})
	if err != nil {
		f.Error(err)
		return
	}
	request.ContentLength = int64(length)
	answer, err := own.Do(request)
	cancel()
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode/100 == 2 {
			f.Error("half of a report is taken")
		}
	}
}

// endless gives no byte until its client is gone.
type endless struct{ client context.Context }

// Read implements io.Reader.
func (e endless) Read([]byte) (int, error) { <-e.client.Done(); return 0, e.client.Err() }

// TestFederation: clients die, stall, send false reports, replay and send rubbish, and aggregators are killed and
// started again in the midst of reports. Each round's release equals the simulation's with the clients that both
// aggregators acknowledged; what leaves an aggregator has noise; each one's view is uniform; memory stays flat.
// POPRI_FEDERATION_CLIENTS and POPRI_FEDERATION_ROUNDS make it larger.
func TestFederation(t *testing.T) {
	n, rounds := number(t, "POPRI_FEDERATION_CLIENTS", 50), number(t, "POPRI_FEDERATION_ROUNDS", 3)
	f := newFederation(t, n)
	there := f.collector(f.remote(), f.there)
	views := map[aggregate.Role]*[256]float64{aggregate.Leader: {}, aggregate.Helper: {}}
	refused := map[aggregate.Outcome]int{}
	var heap uint64
	lied, unproved := 0, 0
	for number := 1; number <= rounds; number++ {
		behaviours := rng.New(f.seed, "behaviour", fmt.Sprint(number))
		r, noised := f.ask(number, 0, func(r *round) { f.behave(r, behaviours, number) })
		f.collect = noised
		got, err := there.Collect(f.request(number, "there"))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(r.counted)
		here := f.collector(fedsim.Reporting{Rounding: fedsim.Embedded{Clients: f.all}, Least: f.least(),
			Arrived: func(int) []int { return r.counted }, InsecureSeed: &f.seed}, f.here)
		want, err := here.Collect(f.request(number, "here"))
		if err != nil {
			t.Fatal(err)
		}
		for j, lie := range r.lies {
			want.Sum[j] += float64(lie) * want.Step
		}
		if !bytes.Equal(got.Encode(), want.Encode()) {
			t.Errorf("round %d: the release of %d clients is not that of the simulation with %d", number, got.Clients,
				len(r.counted))
		}
		if slices.ContainsFunc(r.lies, func(k int64) bool { return k != 0 }) {
			lied++
		}
		f.tap(r)
		unproved += r.unproved
		for role := range views {
			for b := range views[role] {
				views[role][b] += r.views[role][b]
			}
		}
		for o, k := range r.refused {
			refused[o] += k
		}
		// Every third round, or a multiple of that, so that reports have the same size: clients keep their last ones.
		if every := 3 * max(1, rounds/15); rounds < 2*every || number%every > 0 {
			continue
		}
		now := f.memory()
		t.Logf("round %d: %d KiB of memory", number, now>>10)
		if heap == 0 {
			heap = now
		} else if now > heap+heap/4+8<<20 {
			t.Errorf("round %d: %d bytes of memory, after the first rounds %d", number, now, heap)
		}
	}
	for role, counts := range views {
		uniform(t, fmt.Sprintf("what the %s was sent", role), counts)
	}
	for _, role := range aggregate.Roles {
		if _, charges, err := ledger.Read(f.LedgerPath(role)); err != nil || len(charges) != rounds {
			t.Errorf("the %s charged %d times in %d rounds (%v)", role, len(charges), rounds, err)
		}
	}
	t.Logf("federation: %d rounds of %d clients, %d of them with lies; refused: %v, %d unproved", rounds, n, lied,
		refused, unproved)
	if unproved == 0 {
		t.Error("no proof was refused")
	}
}

// memory is what clients and aggregators hold without connections: how many of these there are, and how large their
// buffers have grown, is chance. net/http keeps a dead connection until the time of its next ping.
func (f *federation) memory() uint64 {
	f.disconnect()
	defer f.connect()
	for _, role := range aggregate.Roles {
		f.Kill(role)
		f.Start(role)
	}
	time.Sleep(service.Ping + time.Second)
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// behave has all clients act at once, and kills an aggregator in the midst of it: the leader in odd rounds, the helper
// in even ones.
func (f *federation) behave(r *round, behaviours *rand.Rand, number int) {
	does := make([]behaviour, len(f.people))
	for i := range does {
		does[i] = drawn(behaviours)
	}
	var done, killed sync.WaitGroup
	slots := make(chan struct{}, 100)
	for i := range f.people {
		done.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			f.act(r, i, does[i])
		})
		if i == len(f.people)/2 {
			role := aggregate.Roles[number%2]
			killed.Go(func() {
				f.Kill(role)
				f.Start(role)
			})
		}
	}
	done.Wait()
	killed.Wait()
}

// request asks for a round in a folder of its own.
func (f *federation) request(number int, name string) release.Request {
	f.T.Helper()
	dir := testfile.Folder(f.T, filepath.Join(f.Dir, name, fmt.Sprint(number)))
	return release.Request{Round: number, Query: f.asked, Dir: dir}
}

// tap looks at what left each aggregator: its share is its bare sum and noise of the charged size, and nothing of the
// sum leaves otherwise.
func (f *federation) tap(r *round) {
	f.T.Helper()
	grid, err := r.Grid()
	if err != nil {
		f.Fatal(err)
	}
	for _, role := range aggregate.Roles {
		left := f.TakeLeft(role)
		share, err := aggregate.ParseShare(left["/v1/batches/"+r.ID().String()+"/share"])
		if err != nil {
			f.Fatal(err)
		}
		noise, secrets, err := r.noise(role, share)
		if err != nil {
			f.Fatal(err)
		}
		squares, bare := 0.0, 0
		for _, d := range noise {
			squares += d * d
			if d == 0 {
				bare++
			}
		}
		n := float64(len(noise))
		if ratio := squares / n / math.Pow(float64(grid.Units), 2); bare > 0 || math.Abs(ratio-1) > 6*math.Sqrt(2/n) {
			f.Errorf("round %d: %d values of the %s's share have no noise, all have %.3f of its variance", r.Round,
				bare, role, ratio)
		}
		for path, body := range left {
			for j, secret := range secrets {
				if bytes.Contains(body, secret) {
					f.Errorf("round %d: value %d of the %s's sum left it without noise, by %s", r.Round, j, role, path)
				}
			}
		}
	}
}

// noise is what an aggregator added to its sum, and the values of that sum as they are written.
func (r *round) noise(role aggregate.Role, share *aggregate.Share) (noise []float64, secrets [][]byte, err error) {
	if r.scheme == nil {
		for j, v := range share.Values {
			noise = append(noise, float64(int64(v-r.bare[role][j])))
			if r.bare[role][j] != 0 {
				secrets = append(secrets, binary.LittleEndian.AppendUint64(nil, r.bare[role][j]))
			}
		}
		return noise, secrets, nil
	}
	noised, err := rangeproof.FromWords(share.Values)
	if err != nil {
		return nil, nil, err
	}
	for j := range noised {
		secret, err := r.field[role][j].MarshalBinary()
		if err != nil {
			return nil, nil, err
		}
		secrets = append(secrets, secret)
		noised[j].SubAssign(&r.field[role][j])
		rangeproof.Add(&noised[j], 1<<40)
		d, err := noised[j].GetUint64()
		if err != nil {
			return nil, nil, err
		}
		noise = append(noise, float64(d)-1<<40)
	}
	return noise, secrets, nil
}

// uniform tests the counts of bytes by χ².
func uniform(t *testing.T, what string, counts *[256]float64) {
	t.Helper()
	total, chi := 0.0, 0.0
	for _, n := range counts {
		total += n
	}
	for _, n := range counts {
		chi += (n - total/256) * (n - total/256) / (total / 256)
	}
	if math.Abs(chi-255) > 6*math.Sqrt(2*255) {
		t.Errorf("%s has χ² = %.0f with 255 degrees of freedom, over %.0f bytes", what, chi, total)
	}
}

// TestAbortedRoundIsCharged: a client whose shares do not belong together makes the sum useless. The round ends with
// its charge, and the question can be asked again.
func TestAbortedRoundIsCharged(t *testing.T) {
	f := newFederation(t, 12)
	there := f.collector(f.remote(), f.there)
	everybody := func(r *round) {
		for i := range f.people {
			f.act(r, i, honest)
		}
	}
	_, f.collect = f.ask(1, 0, func(r *round) {
		for i := range f.people[1:] {
			f.act(r, i+1, honest)
		}
		for _, role := range aggregate.Roles {
			leader, helper, err := r.Split(f.people[0].key.Public().(ed25519.PublicKey), make([]int64, r.Values))
			if err != nil {
				t.Fatal(err)
			}
			if role == aggregate.Helper {
				leader = helper
			}
			content, err := aggregate.Seal(r.Announcement, role, f.keys[role], f.people[0].key, leader)
			if err == nil {
				err = f.people[0].remotes[role].Report(t.Context(), content)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if _, err := there.Collect(f.request(1, "there")); !errors.Is(err, aggregate.ErrOutOfRange) {
		t.Fatal(err)
	}
	if charges := f.there.Entries(); len(charges) != 1 || charges[0].Round != 1 {
		t.Errorf("charges %+v", charges)
	}
	var r *round
	r, f.collect = f.ask(1, 1, everybody)
	if got, err := there.Collect(f.request(1, "there")); err != nil || got.Clients != len(r.counted) ||
		len(f.there.Entries()) != 2 {
		t.Errorf("asked again: %v, charges %+v", err, f.there.Entries())
	}
}
