package aggregate

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/aggregate/rangeproof"
	"popri/fedsim/noise"
	"popri/fedsim/sealing"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/testkit/testfile"
)

const (
	testClients = 12
	testValues  = 20
	testSigma   = 2
	deadline    = 1000
)

// world is two aggregators and their clients.
type world struct {
	testing.TB
	asked   *Announcement
	grid    noise.Grid
	clients []ed25519.PrivateKey
	public  map[Role]sealing.PublicKey
	sides   map[Role]*Aggregator
	configs map[Role]Config
	now     int64
}

func newWorld(t testing.TB, seeded bool) *world {
	t.Helper()
	hash := sha256.Sum256([]byte("question"))
	w := &world{TB: t, public: map[Role]sealing.PublicKey{}, sides: map[Role]*Aggregator{}, configs: map[Role]Config{},
		now: 1, asked: &Announcement{Version: Version, Nonce: "n", Round: 3, Question: hash[:], Query: "mean",
			Values: testValues, Bound: 1, Sigma: testSigma, Clients: testClients, Least: 4, Deadline: deadline,
			InsecureSeed: seeded}}
	w.grid = w.must(w.asked.Grid()).(noise.Grid)
	var enrolled []ed25519.PublicKey
	for i := range testClients {
		seed := sha256.Sum256(fmt.Append(nil, i))
		w.clients = append(w.clients, ed25519.NewKeyFromSeed(seed[:]))
		enrolled = append(enrolled, w.clients[i].Public().(ed25519.PublicKey))
	}
	for _, role := range Roles {
		dir := t.TempDir()
		if err := sealing.GenerateKey(filepath.Join(dir, "key")); err != nil {
			t.Fatal(err)
		}
		c := Config{Role: role, Enrolled: enrolled, Dir: filepath.Join(dir, "batches"),
			Now: func() time.Time { return time.Unix(w.now, 0) }}
		c.Key = w.must(sealing.ReadPrivateKey(filepath.Join(dir, "key"))).(sealing.PrivateKey)
		c.Ledger = w.must(ledger.Create(filepath.Join(dir, "ledger"),
			ledger.Budget{Epsilon: 6, Delta: 1e-3, Mechanism: "gaussian",
				Unit: "a client", Relation: accountant.ZeroOut, Clients: testClients,
				InsecureSeededNoise: seeded})).(*ledger.Ledger)
		t.Cleanup(func() { c.Ledger.Close() })
		if seeded {
			seed := uint64(9)
			c.InsecureSeed = &seed
		}
		w.public[role], w.configs[role] = c.Key.Public(), c
		w.open(role)
	}
	return w
}

// must is a value without an error.
func (w *world) must(v any, err error) any {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// open opens an aggregator again, as a process that was killed does.
func (w *world) open(role Role) {
	w.Helper()
	if w.sides[role] != nil {
		w.sides[role].Close()
	}
	w.sides[role] = w.must(Open(w.configs[role])).(*Aggregator)
	w.Cleanup(func() { w.sides[role].Close() })
}

func (w *world) announce() {
	w.Helper()
	for _, role := range Roles {
		if err := w.sides[role].Announce(w.asked.Encode()); err != nil {
			w.Fatal(err)
		}
	}
}

// vector is what a client sends.
func vector(i int) []int64 {
	r := rng.New(uint64(i), "vector")
	v := make([]int64, testValues)
	for j := range v {
		v[j] = int64(r.IntN(1<<20)) - 1<<19
	}
	return v
}

// report is a client's report about steps to one aggregator.
func (w *world) report(i int, role Role, steps []int64) []byte {
	w.Helper()
	return w.sealed(i, role, w.split(i, steps)[role])
}

// split is both shares of a client's vector.
func (w *world) split(i int, steps []int64) map[Role][]byte {
	w.Helper()
	leader, helper, err := w.asked.Split(w.clients[i].Public().(ed25519.PublicKey), steps)
	if err != nil {
		w.Fatal(err)
	}
	return map[Role][]byte{Leader: leader, Helper: helper}
}

// sealed is a report that carries a share.
func (w *world) sealed(i int, role Role, share []byte) []byte {
	w.Helper()
	return w.must(Seal(w.asked, role, w.public[role], w.clients[i], share)).([]byte)
}

// upload sends a client's shares to both.
func (w *world) upload(i int, steps []int64) {
	w.Helper()
	w.send(i, w.split(i, steps))
}

// send sends shares of a client to both.
func (w *world) send(i int, shares map[Role][]byte) {
	w.Helper()
	for role, share := range shares {
		if err := w.sides[role].Accept(w.sealed(i, role, share)); err != nil {
			w.Fatal(err)
		}
	}
}

// lists passes the deadline and has both list their reports.
func (w *world) lists() map[Role][]ReportID {
	w.Helper()
	w.now = deadline
	lists := map[Role][]ReportID{}
	for _, role := range Roles {
		lists[role] = w.must(w.sides[role].IDs(w.asked.ID())).([]ReportID)
	}
	return lists
}

// finish passes the deadline and has both make their shares.
func (w *world) finish() (steps []int64, reports int, err error) {
	w.Helper()
	lists := w.lists()
	if w.asked.Proof != NoProof {
		w.verifyAll(lists)
		for _, role := range Roles {
			w.decide(role)
		}
	}
	for _, role := range Roles {
		if err := w.sides[role].Aggregate(w.Context(), w.asked.ID(), lists[role.Peer()]); err != nil {
			return nil, 0, err
		}
	}
	return Merge(w.asked, w.share(Leader), w.share(Helper))
}

func (w *world) verify(role Role, peer []ReportID) {
	w.Helper()
	half := w.must(w.sides[role.Peer()].VerifyHalf(w.asked.ID())).([]byte)
	if err := w.sides[role].Verify(w.Context(), w.asked.ID(), peer, half); err != nil {
		w.Fatal(err)
	}
}

// verifyAll has both verify the proofs of the reports that both listed.
func (w *world) verifyAll(lists map[Role][]ReportID) {
	w.Helper()
	for _, role := range Roles {
		w.verify(role, lists[role.Peer()])
	}
}

// records asks the other aggregator for its records.
func (w *world) records(role Role) func(from uint64) (*Proofs, error) {
	return func(from uint64) (*Proofs, error) {
		content, err := w.sides[role.Peer()].Records(w.asked.ID(), from)
		if err != nil {
			return nil, err
		}
		return ParseProofs(content)
	}
}

func (w *world) decide(role Role) {
	w.Helper()
	if err := w.sides[role].Decide(w.asked.ID(), w.records(role)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) share(role Role) *Share {
	w.Helper()
	return w.must(ParseShare(w.must(w.sides[role].Share(w.asked.ID())).([]byte))).(*Share)
}

// noised is a sum with the seeded noise of both.
func (w *world) noised(sum []int64) []int64 {
	w.Helper()
	for _, role := range Roles {
		if err := noise.Add(sum, w.grid, noise.Party(w.configs[role].InsecureSeed, string(role),
			int(w.asked.Round))); err != nil {
			w.Fatal(err)
		}
	}
	return sum
}

func want(t testing.TB, what string, err error, o Outcome) {
	t.Helper()
	if OutcomeOf(err) != o {
		t.Errorf("%s: %v, want %q", what, err, o)
	}
}

// TestSum: the shares of those who reported to both add up to their vectors, with both noises.
func TestSum(t *testing.T) {
	for _, proof := range []string{NoProof, RangeProof} {
		testSum(t, proof)
	}
}

func testSum(t *testing.T, proof string) {
	w := newWorld(t, true)
	w.asked.Proof = proof
	w.announce()
	sum := make([]int64, testValues)
	for i := range testClients - 2 {
		w.upload(i, vector(i))
		for j, k := range vector(i) {
			sum[j] += k
		}
	}
	// One-sided reports, one on each side, are not counted.
	want(t, "leader alone", w.sides[Leader].Accept(w.report(testClients-2, Leader, vector(1))), Accepted)
	want(t, "helper alone", w.sides[Helper].Accept(w.report(testClients-1, Helper, vector(1))), Accepted)
	got, reports, err := w.finish()
	if err != nil || reports != testClients-2 || !slices.Equal(got, w.noised(sum)) {
		t.Errorf("%d reports, %v", reports, err)
	}
	for _, role := range Roles {
		l := w.configs[role].Ledger.Entries()
		hash := sha256.Sum256(w.share(role).Encode())
		if len(l) != 1 || l[0].Clients != testClients-2 || l[0].Sigma != testSigma ||
			l[0].ReleaseHash != fmt.Sprintf("%x", hash) {
			t.Errorf("the %s charged %+v", role, l)
		}
		if found, err := filepath.Glob(filepath.Join(w.configs[role].Dir, "*", reportsFile)); err != nil ||
			len(found) > 0 {
			t.Errorf("the %s keeps reports after its share: %v (%v)", role, found, err)
		}
	}
}

// TestReportsAreRefused names what happens to each kind of report that is not an honest client's first.
func TestReportsAreRefused(t *testing.T) {
	testReportsAreRefused(t, NoProof, RangeProof)
	testReportsAreRefused(t, RangeProof, NoProof)
}

func testReportsAreRefused(t *testing.T, proof, other string) {
	w := newWorld(t, true)
	w.asked.Proof = proof
	good := w.report(0, Leader, vector(0))
	leader := w.sides[Leader]
	want(t, "before it was asked", leader.Accept(good), Unannounced)
	w.announce()
	want(t, "the first", leader.Accept(good), Accepted)
	want(t, "the same again", leader.Accept(good), Repeated)
	want(t, "another of the client", leader.Accept(w.report(0, Leader, vector(0))), Replaced)
	want(t, "the helper's share", leader.Accept(w.report(1, Helper, vector(1))), Forged)
	want(t, "no message", leader.Accept([]byte("hello")), Malformed)
	want(t, "nothing", leader.Accept(nil), Malformed)
	want(t, "cut", leader.Accept(good[:len(good)-1]), Malformed)
	share := w.split(1, vector(1))[Leader]
	want(t, "too few values", leader.Accept(w.sealed(1, Leader, share[8:])), Malformed)
	want(t, "too many values", leader.Accept(w.sealed(1, Leader, append(share, share[:16]...))), Malformed)
	stranger := *w
	stranger.clients = []ed25519.PrivateKey{ed25519.NewKeyFromSeed(make([]byte, 32))}
	want(t, "a stranger", leader.Accept(stranger.report(0, Leader, vector(1))), NotEnrolled)
	revoking := w.configs[Helper]
	revoking.Revoked = revoking.Enrolled[3:4]
	w.configs[Helper] = revoking
	w.open(Helper)
	want(t, "a revoked client", w.sides[Helper].Accept(w.report(3, Helper, vector(3))), NotEnrolled)
	for i := range w.clients {
		_, err := w.sides[Helper].IDs(w.asked.ID())
		want(t, "before all clients' reports are there", err, Waiting)
		if i != 3 {
			want(t, "another client", w.sides[Helper].Accept(w.report(i, Helper, vector(i))), Accepted)
		}
	}
	if ids, err := w.sides[Helper].IDs(w.asked.ID()); err != nil || len(ids) != testClients-1 {
		t.Errorf("a revoked client is waited for: %d reports (%v)", len(ids), err)
	}
	var parsed Report
	if err := decode(w.report(2, Leader, vector(2)), &parsed); err != nil {
		t.Fatal(err)
	}
	parsed.Client = w.clients[3].Public().(ed25519.PublicKey)
	want(t, "another's name", leader.Accept(encode(&parsed)), Forged)
	parsed.Signature = ed25519.Sign(w.clients[3], parsed.signed(Leader))
	want(t, "another's share under one's own name", leader.Accept(encode(&parsed)), Malformed)
	for name, change := range map[string]func(*Announcement){"round": func(a *Announcement) { a.Round++ },
		"question": func(a *Announcement) { a.Question = bytes.Repeat([]byte{1}, 32) },
		"bound":    func(a *Announcement) { a.Bound *= 2 },
		"noise":    func(a *Announcement) { a.Sigma /= 2 }, "deadline": func(a *Announcement) { a.Deadline++ },
		"nonce": func(a *Announcement) { a.Nonce += "1" }, "proof": func(a *Announcement) { a.Proof = other }} {
		other, asked := *w, *w.asked
		change(&asked)
		other.asked = &asked
		want(t, "another "+name, leader.Accept(other.report(4, Leader, vector(4))), Unannounced)
		// The share of another announcement, under the hash of this one.
		if err := decode(other.report(4, Leader, vector(4)), &parsed); err != nil {
			t.Fatal(err)
		}
		id := w.asked.ID()
		parsed.Announcement = id[:]
		parsed.Signature = ed25519.Sign(w.clients[4], parsed.signed(Leader))
		want(t, "the share of another "+name, leader.Accept(encode(&parsed)), Malformed)
	}
	w.now = deadline
	want(t, "late", leader.Accept(w.report(5, Leader, vector(5))), Late)
	w.now = deadline - 1
	want(t, "in time", leader.Accept(w.report(5, Leader, vector(5))), Accepted)
	if _, held, _, _ := leader.Counts(); held != 2 {
		t.Errorf("%d reports are held, want 2", held)
	}
}

// TestChangedReports: no changed byte of a report is taken.
func TestChangedReports(t *testing.T) {
	w := newWorld(t, true)
	w.announce()
	good := w.report(0, Leader, vector(0))
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if err := w.sides[Leader].Accept(bad); err == nil {
			t.Fatalf("byte %d can be changed", i)
		}
	}
}

// TestBrokenClient: what is no bounded vector leaves no client.
func TestBrokenClient(t *testing.T) {
	grid, err := noise.NewGrid(1, 1, 3, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range [][]float64{{math.NaN(), 0, 0}, {0, math.Inf(1), 0}, {1, 1, 0}, {1e300, 1e300, 0}} {
		if _, err := grid.RoundBounded(v, 1); err == nil {
			t.Errorf("%v is sent", v)
		}
	}
	if steps, err := grid.RoundBounded([]float64{0.6, 0, -0.8}, 1); err != nil || grid.Value(steps[2])+0.8 > grid.Step {
		t.Errorf("%v, %v", steps, err)
	}
}

// TestShareAloneIsUniform: each aggregator's view, of a vector of zeros, the largest one or any, is uniform by χ².
func TestShareAloneIsUniform(t *testing.T) {
	for name, step := range map[string]int64{"zeros": 0, "ones": 1, "largest": math.MaxInt64,
		"smallest": math.MinInt64} {
		steps := slices.Repeat([]int64{step}, 512)
		var counts [2][256]float64
		var total [2]float64
		for range 200 {
			leader, helper := split(steps)
			for view, share := range [][]byte{leader, helper} {
				for _, b := range share {
					counts[view][b]++
					total[view]++
				}
			}
		}
		for view := range counts {
			chi, expected := 0.0, total[view]/256
			for _, n := range counts[view] {
				chi += (n - expected) * (n - expected) / expected
			}
			// 255 degrees of freedom: six standard deviations.
			if d := math.Abs(chi - 255); d > 6*math.Sqrt(2*255) {
				t.Errorf("%s: the view of the %s has χ² = %.0f with 255 degrees of freedom", name, Roles[view], chi)
			}
		}
	}
}

// TestOneHonestAggregator: if one of the two adds no noise and reveals all it has, the sum still has the noise that is
// charged.
func TestOneHonestAggregator(t *testing.T) {
	for _, proof := range []string{NoProof, RangeProof} {
		for _, honest := range Roles {
			testOneHonest(t, proof, honest)
		}
	}
}

func testOneHonest(t *testing.T, proof string, honest Role) {
	squares, n := 0.0, 0
	var grid noise.Grid
	for range 5 {
		w := newWorld(t, false)
		w.asked.Proof = proof
		grid = w.grid
		w.announce()
		for i := range 4 {
			w.upload(i, make([]int64, testValues))
		}
		// The other one opens all that it was sent and sums it without noise.
		cheat := w.sides[honest.Peer()]
		b := cheat.batches[w.asked.ID()]
		w.now = deadline
		ids := w.must(cheat.IDs(b.id)).([]ReportID)
		w.must(w.sides[honest].IDs(b.id))
		bare := &Share{Version: Version, Reports: 4}
		if proof == NoProof {
			open := func(r *Report) ([]byte, error) { return r.open(b.Announcement, cheat.Role, cheat.Key) }
			bare.Values = w.must(b.sum(ids, cheat.Role, open)).([]uint64)
		} else {
			for _, role := range Roles {
				w.verify(role, ids)
			}
			w.decide(honest)
			sum := w.must(cheat.check(w.Context(), b, ids, func(int, []byte) error { return nil })).(rangeproof.Vector)
			bare.Values = w.must(rangeproof.Words(sum)).([]uint64)
		}
		if err := w.sides[honest].Aggregate(w.Context(), b.id, ids); err != nil {
			t.Fatal(err)
		}
		sides := map[Role]*Share{honest: w.share(honest), cheat.Role: bare}
		for _, k := range w.must(w.asked.addUp(sides[Leader], sides[Helper])).([]int64) {
			d := float64(k)
			squares, n = squares+d*d, n+1
		}
	}
	if ratio := squares / float64(n) / math.Pow(float64(grid.Units), 2); math.Abs(ratio-1) > 6*math.Sqrt(2/float64(n)) {
		t.Errorf("with the %s alone honest, the noise has %.3f of the charged variance", honest, ratio)
	}
}

// TestOneLiar states what a client can do without norm proofs: move the sum by any vector that it likes. What bounded
// vectors cannot add up to is found when the shares are merged; smaller false reports are not.
func TestOneLiar(t *testing.T) {
	w := newWorld(t, true)
	w.announce()
	sum, limit := make([]int64, testValues), int64(1/w.grid.Step)
	for i := range 6 {
		w.upload(i, make([]int64, testValues))
	}
	lie := make([]int64, testValues)
	for j := range lie {
		lie[j] = 4 * limit // each value four times the bound; the norm is 4·√20 = 18 times the bound
		sum[j] = lie[j]
	}
	w.upload(6, lie)
	if got, _, err := w.finish(); err != nil || !slices.Equal(got, w.noised(sum)) {
		t.Errorf("the lie does not move the sum by itself: %v", err)
	}
	w = newWorld(t, true)
	w.announce()
	for i := range 6 {
		w.upload(i, make([]int64, testValues))
	}
	lie[3] = math.MaxInt64 / 3
	w.upload(6, lie)
	if _, _, err := w.finish(); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("a sum that cannot be: %v", err)
	}
	// A client whose two shares do not belong together adds noise of its own, beyond all bounds.
	w = newWorld(t, true)
	w.announce()
	for i := range 6 {
		w.upload(i, make([]int64, testValues))
	}
	for _, role := range Roles {
		want(t, "a share of something else", w.sides[role].Accept(w.report(6, role, vector(6))), Accepted)
	}
	if _, _, err := w.finish(); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("shares that do not belong together: %v", err)
	}
}

// TestFew: below the least number nothing is summed or charged, and the batch is over.
func TestFew(t *testing.T) {
	w := newWorld(t, true)
	w.announce()
	for i := range 3 {
		w.upload(i, vector(i))
	}
	_, _, err := w.finish()
	want(t, "three reports", err, Few)
	_, err = w.sides[Leader].Share(w.asked.ID())
	want(t, "its share", err, Few)
	if n := len(w.configs[Leader].Ledger.Entries()); n != 0 {
		t.Errorf("%d charges", n)
	}
	next := *w.asked
	next.Nonce, next.Deadline = "next", 2*deadline
	want(t, "the next announcement", w.sides[Leader].Announce(next.Encode()), Accepted)
}

// TestOneShareOfABatch: whatever the other aggregator says later, and whenever the process ends, a batch has one share
// and one charge; and its identifiers do not change.
func TestOneShareOfABatch(t *testing.T) {
	crash := errors.New("crash")
	for _, stages := range [][]string{nil, {"pending"}, {"charged"}, {"pending", "charged"}} {
		w := newWorld(t, false)
		w.announce()
		for i := range 8 {
			w.upload(i, vector(i))
		}
		w.open(Leader) // killed while reports came
		early := w.report(8, Leader, vector(8))
		want(t, "a report", w.sides[Leader].Accept(early), Accepted)
		w.now = deadline
		ids := w.must(w.sides[Helper].IDs(w.asked.ID())).([]ReportID)
		own := w.must(w.sides[Leader].IDs(w.asked.ID())).([]ReportID)
		want(t, "a report that is held, after the deadline", w.sides[Leader].Accept(early), Repeated)
		var pending []byte
		for _, stage := range stages {
			w.sides[Leader].crash = func(at string) error {
				if at == stage {
					return crash
				}
				return nil
			}
			if err := w.sides[Leader].Aggregate(w.Context(), w.asked.ID(), ids); !errors.Is(err, crash) {
				t.Fatalf("at %s: %v", stage, err)
			}
			found, err := filepath.Glob(filepath.Join(w.configs[Leader].Dir, "*", pendingFile))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			content := w.must(os.ReadFile(found[0])).([]byte)
			if pending != nil && !bytes.Equal(pending, content) {
				t.Error("a second noise was drawn")
			}
			pending = content
			if _, err := w.sides[Leader].Share(w.asked.ID()); OutcomeOf(err) != Waiting {
				t.Errorf("at %s the share can be seen: %v", stage, err)
			}
			w.open(Leader)
		}
		for _, peer := range [][]ReportID{ids, ids[:5], nil} {
			if err := w.sides[Leader].Aggregate(w.Context(), w.asked.ID(), peer); err != nil {
				t.Fatal(err)
			}
			content := w.must(w.sides[Leader].Share(w.asked.ID())).([]byte)
			if pending != nil && !bytes.Equal(pending, content) {
				t.Error("a second share was made")
			}
			pending = content
			w.open(Leader)
		}
		if n := len(w.configs[Leader].Ledger.Entries()); n != 1 {
			t.Errorf("%d charges", n)
		}
		want(t, "a report after that", w.sides[Leader].Accept(w.report(9, Leader, vector(9))), Late)
		if again := w.must(w.sides[Leader].IDs(w.asked.ID())).([]ReportID); !slices.Equal(again, own) {
			t.Error("the identifiers changed")
		}
		want(t, "the announcement again", w.sides[Leader].Announce(w.asked.Encode()), Accepted)
		if w.sides[Leader].Current() != nil {
			t.Error("it is asked again")
		}
	}
}

// TestLostLedger: an aggregator whose ledger does not have the share that it published does not begin again at ε = 0.
func TestLostLedger(t *testing.T) {
	w := newWorld(t, true)
	w.announce()
	for i := range testClients {
		w.upload(i, vector(i))
	}
	if _, _, err := w.finish(); err != nil {
		t.Fatal(err)
	}
	c := w.configs[Leader]
	c.Ledger = w.must(ledger.Create(filepath.Join(t.TempDir(), "ledger"), c.Ledger.Budget())).(*ledger.Ledger)
	defer c.Ledger.Close()
	if _, err := Open(c); !errors.Is(err, ledger.ErrUncharged) || !fault.IsUser(err) {
		t.Errorf("with an empty ledger: %v", err)
	}
}

// TestTornLog: a report that a crash cut short is not held, nor one whose bytes a loss of power made zeros, and those
// before it are.
func TestTornLog(t *testing.T) {
	w := newWorld(t, true)
	w.announce()
	for i := range 5 {
		w.upload(i, vector(i))
	}
	path := filepath.Join(w.sides[Leader].current.dir, reportsFile)
	content := w.must(os.ReadFile(path)).([]byte)
	testfile.Write(t, path, append(content, content[:len(content)/5-3]...))
	w.open(Leader)
	if _, held, _, _ := w.sides[Leader].Counts(); held != 5 {
		t.Errorf("%d reports are held, want 5", held)
	}
	w.upload(5, vector(5))
	content = w.must(os.ReadFile(path)).([]byte)
	clear(content[len(content)-len(content)/8:])
	testfile.Write(t, path, content)
	w.open(Leader)
	if _, held, _, _ := w.sides[Leader].Counts(); held != 5 {
		t.Errorf("%d reports are held after a loss of power, want 5", held)
	}
	w.upload(6, vector(6))
	if _, reports, err := w.finish(); err != nil || reports != 6 {
		t.Errorf("%d reports, %v", reports, err)
	}
}

// TestAnnouncements: an aggregator asks its clients nothing that its ledger does not cover, or that is not for them.
func TestAnnouncements(t *testing.T) {
	w := newWorld(t, true)
	for name, c := range map[string]struct {
		change func(*Announcement)
		want   Outcome
	}{
		"version":     {func(a *Announcement) { a.Version = 2 }, Malformed},
		"no noise":    {func(a *Announcement) { a.Sigma = 0 }, Malformed},
		"round":       {func(a *Announcement) { a.Round = 0 }, Malformed},
		"least":       {func(a *Announcement) { a.Least = 1 }, Malformed},
		"more":        {func(a *Announcement) { a.Least = testClients + 1 }, Malformed},
		"clients":     {func(a *Announcement) { a.Clients++ }, Malformed},
		"values":      {func(a *Announcement) { a.Values = 0 }, Malformed},
		"many values": {func(a *Announcement) { a.Values = maxValues + 1 }, Malformed},
		"bound":       {func(a *Announcement) { a.Bound = math.Inf(1) }, Malformed},
		"rate":        {func(a *Announcement) { a.Rate = 1 }, Malformed},
		"question":    {func(a *Announcement) { a.Question = nil }, Malformed},
		"nonce":       {func(a *Announcement) { a.Nonce = "" }, Malformed},
		"real noise":  {func(a *Announcement) { a.InsecureSeed = false }, Malformed},
		"proof":       {func(a *Announcement) { a.Proof = "norm" }, Malformed},
		"too long":    {func(a *Announcement) { a.Proof, a.Values = RangeProof, maxValues }, Malformed},
		"past":        {func(a *Announcement) { a.Deadline = 1 }, Late},
	} {
		asked := *w.asked
		c.change(&asked)
		want(t, name, w.sides[Leader].Announce(asked.Encode()), c.want)
	}
	dear := *w.asked
	dear.Sigma = 0.1
	if err := w.sides[Leader].Announce(dear.Encode()); OutcomeOf(err) != Budget {
		t.Errorf("beyond the budget: %v", err)
	}
	if w.sides[Leader].Current() != nil {
		t.Error("something was announced")
	}
	w.announce()
	next := *w.asked
	next.Nonce = "next"
	want(t, "a second one", w.sides[Leader].Announce(next.Encode()), Busy)
}

// TestSchema: aggregate.proto has the messages' fields, with their numbers and types.
func TestSchema(t *testing.T) {
	content := testfile.Read(t, "aggregate.proto")
	kinds := map[string]string{"uint64": "uint64", "string": "string", "bytes": "[]uint8", "double": "float64",
		"bool": "bool", "repeated fixed64": "[]uint64"}
	for _, m := range []message{&Announcement{}, &Report{}, &Share{}, &Proofs{}} {
		name := reflect.TypeOf(m).Elem().Name()
		_, body, ok := strings.Cut(string(content), "message "+name+" {")
		body, _, _ = strings.Cut(body, "\n}")
		found := regexp.MustCompile(`(?m)^  ((?:repeated )?\w+) (\w+) = (\d+);`).FindAllStringSubmatch(body, -1)
		fields := m.fields()
		if !ok || len(found) != len(fields) {
			t.Fatalf("%s: %d fields in the schema, %d in the program", name, len(found), len(fields))
		}
		for i, f := range found {
			typed := reflect.TypeOf(fields[i]).Elem().String()
			inGo := reflect.TypeOf(m).Elem().Field(i).Name
			if f[3] != fmt.Sprint(i+1) || kinds[f[1]] != typed ||
				strings.ReplaceAll(f[2], "_", "") != strings.ToLower(inGo) {
				t.Errorf("%s: the schema has %q, the program %s %s = %d", name, f[0], typed, inGo, i+1)
			}
		}
	}
}

// fuzz checks that what is read is written again to the same bytes.
func fuzz(f *testing.F, seeds [][]byte, parse func([]byte) (message, error)) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parse(b); err == nil && !bytes.Equal(encode(m), b) {
			t.Errorf("%x is written as %x", b, encode(m))
		}
	})
}

func FuzzAnnouncement(f *testing.F) {
	w := newWorld(f, true)
	fuzz(f, [][]byte{nil, w.asked.Encode()}, func(b []byte) (message, error) {
		a, err := ParseAnnouncement(b)
		if err == nil {
			if _, err := a.Charge(int(a.Clients)); err != nil {
				f.Error(err)
			}
		}
		return a, err
	})
}

func FuzzShare(f *testing.F) {
	s := &Share{Version: 1, Role: "leader", Announcement: make([]byte, 32), Batch: make([]byte, 32), Reports: 3,
		Values: []uint64{1, 2}}
	fuzz(f, [][]byte{nil, s.Encode()}, func(b []byte) (message, error) { return ParseShare(b) })
}

func FuzzProofs(f *testing.F) {
	p := &Proofs{Version: 1, Role: "helper", Announcement: make([]byte, 32), Batch: make([]byte, 32), First: 3,
		Records: []byte{1, 2}}
	fuzz(f, [][]byte{nil, p.Encode()}, func(b []byte) (message, error) { return ParseProofs(b) })
}

// FuzzReport: no bytes but a client's own report are taken.
func FuzzReport(f *testing.F) {
	w := newWorld(f, true)
	w.announce()
	good := w.report(0, Leader, vector(0))
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := w.sides[Leader].Accept(b); (err == nil || OutcomeOf(err) == Repeated) && !bytes.Equal(b, good) {
			t.Errorf("%x is taken", b)
		}
		r := &Report{}
		if decode(b, r) == nil && !bytes.Equal(encode(r), b) {
			t.Errorf("%x is written as %x", b, encode(r))
		}
	})
}

// FuzzLog: a log of reports that is damaged is an error or a shorter log, and never more than was written.
func FuzzLog(f *testing.F) {
	w := newWorld(f, true)
	report := w.report(0, Leader, vector(0))
	f.Add(append(binary.LittleEndian.AppendUint32(nil, uint32(len(report))), report...))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		testfile.Write(t, filepath.Join(dir, announcementFile), w.asked.Encode())
		testfile.Write(t, filepath.Join(dir, reportsFile), b)
		if got, err := openBatch(dir); err == nil {
			if got.size > int64(len(b)) || len(got.held) > len(b)/4 {
				t.Errorf("%d reports in %d of %d bytes", len(got.held), got.size, len(b))
			}
			got.log.Close()
		}
	})
}
