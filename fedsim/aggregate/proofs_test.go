package aggregate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/fedsim/aggregate/rangeproof"
	"popri/testkit/testfile"
)

// proved is a world whose reports have range proofs.
func proved(t testing.TB, seeded bool) *world {
	t.Helper()
	w := newWorld(t, seeded)
	w.asked.Proof = RangeProof
	w.announce()
	return w
}

// tampered are shares of a client that no honest client sends.
func tampered(w *world, i int) map[string]map[Role][]byte {
	honest := w.split(i, vector(i))
	other, stranger := w.split(i, vector(i+1)), w.split(i+1, vector(i))
	change := func(role Role, at int) map[Role][]byte {
		out := map[Role][]byte{Leader: slices.Clone(honest[Leader]), Helper: slices.Clone(honest[Helper])}
		out[role][(at+len(out[role]))%len(out[role])] ^= 1
		return out
	}
	overflow := change(Leader, 0)
	for j := range 16 {
		overflow[Leader][j] = 0xff // no element of the field
	}
	return map[string]map[Role][]byte{
		"a value":                      change(Leader, 0),
		"the proof":                    change(Leader, -100), // before the seed and the public part
		"the leader's seed":            change(Leader, -70),
		"the helper's seed":            change(Helper, 0),
		"the helper's second seed":     change(Helper, 40),
		"the public part of one":       change(Helper, -1),
		"the public part of the other": change(Leader, -40),
		"no element":                   overflow,
		"shares of two vectors":        {Leader: honest[Leader], Helper: other[Helper]},
		"a proof for another client":   stranger,
	}
}

// TestUnproved: both aggregators refuse each report whose proof does not hold, and sum up the others.
func TestUnproved(t *testing.T) {
	w := proved(t, true)
	sum := make([]int64, testValues)
	const bad = 7
	for i := range bad {
		w.upload(i, vector(i))
		for j, k := range vector(i) {
			sum[j] += k
		}
	}
	kinds := tampered(w, bad)
	for name, shares := range kinds {
		w := proved(t, true)
		for i := range bad {
			w.upload(i, vector(i))
		}
		w.send(bad, shares)
		got, reports, err := w.finish()
		if err != nil || reports != bad || !slices.Equal(got, w.noised(slices.Clone(sum))) {
			t.Errorf("%s: %d reports, %v", name, reports, err)
		}
		for _, role := range Roles {
			if _, _, refused, _ := w.sides[role].Counts(); refused != 1 || w.share(role).Refused != 1 {
				t.Errorf("%s: the %s refused %d and %d", name, role, refused, w.share(role).Refused)
			}
			why := w.must(os.ReadFile(filepath.Join(w.sides[role].current.dir, refusedFile))).([]byte)
			id := reportID(w.asked.ID(), w.sides[role].Enrolled[bad])
			if string(why) != fmt.Sprintf("%x unproved\n", id) {
				t.Errorf("%s: the %s notes %q", name, role, why)
			}
			w.open(role)
			if _, _, refused, _ := w.sides[role].Counts(); refused != 1 {
				t.Errorf("%s: a new process of the %s has refused %d", name, role, refused)
			}
		}
	}
	if got, reports, err := w.finish(); err != nil || reports != bad || !slices.Equal(got, w.noised(sum)) ||
		w.share(Leader).Refused != 0 {
		t.Errorf("without a liar: %d reports, %v", reports, err)
	}
}

// TestFewProved: if fewer reports than the least number are proved, nothing is summed or charged.
func TestFewProved(t *testing.T) {
	for _, honest := range []int{2, 3} { // with the liar: fewer than the least number, and as many
		w := proved(t, true)
		for i := range honest {
			w.upload(i, vector(i))
		}
		shares := w.split(honest, vector(honest))
		shares[Leader][0] ^= 1
		w.send(honest, shares)
		_, _, err := w.finish()
		want(t, "few proofs", err, Few)
		if honest == 3 && !strings.Contains(err.Error(), "without the 1 whose proofs do not hold") {
			t.Error(err)
		}
		if n := len(w.configs[Leader].Ledger.Entries()); n != 0 {
			t.Errorf("%d charges", n)
		}
	}
}

// TestOneProvedLiar states what a client can add with range proofs: each value may be as large as the bound of the
// norm, so the vector is √d times as long as an honest one at most, and at least nearly that. Larger values have no
// proof.
func TestOneProvedLiar(t *testing.T) {
	w := proved(t, true)
	bits := w.must(w.asked.Bits()).(int)
	end := int64(1) << (bits - 1)
	if ratio := float64(end) * w.grid.Step / w.asked.Bound; ratio < 1 || ratio >= 2 {
		t.Errorf("the range is %g times the bound", ratio)
	}
	for i := range 6 {
		w.upload(i, make([]int64, testValues))
	}
	lie := slices.Repeat([]int64{end}, testValues)
	w.upload(6, lie)
	if norm := math.Sqrt(testValues) * float64(end) * w.grid.Step; norm < math.Sqrt(testValues)*w.asked.Bound {
		t.Errorf("the lie has norm %g", norm)
	}
	got, reports, err := w.finish()
	if err != nil || reports != 7 || !slices.Equal(got, w.noised(slices.Clone(lie))) {
		t.Errorf("the largest lie: %d reports, %v", reports, err)
	}
	for _, k := range []int64{end + 1, -end, math.MaxInt64} {
		lie[3] = k
		if _, _, err := w.asked.Split(w.sides[Leader].Enrolled[0], lie); err == nil {
			t.Errorf("a value of %d steps is shared", k)
		}
	}
}

// TestBound: a bounded vector is always in the range, also at the bound itself.
func TestBound(t *testing.T) {
	for _, bound := range []float64{0.3, 1, 1.7, 4} {
		a := &Announcement{Values: 3, Bound: bound, Sigma: 0.7, Clients: 10}
		grid, err := a.Grid()
		if err != nil {
			t.Fatal(err)
		}
		bits, err := a.Bits()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []float64{bound, -bound, bound * (1 + 1e-9), -bound * (1 + 1e-9)} {
			steps, err := grid.RoundBounded([]float64{0, v, 0}, bound)
			if err != nil {
				t.Fatal(err)
			}
			if k, end := steps[1], int64(1)<<(bits-1); k <= -end || k > end ||
				math.Abs(grid.Value(k)-v) > 2*grid.Step+1e-8*bound {
				t.Errorf("%g of %g is %d steps of %g, the range has %d bits", v, bound, k, grid.Step, bits)
			}
		}
	}
}

// TestProvedKilled: whenever a process of either ends, the aggregators say the same about each proof, count the same
// reports, and a batch has one share and one charge.
func TestProvedKilled(t *testing.T) {
	crash := errors.New("crash")
	want := provedKilled(t, Leader, "", crash)
	for _, role := range Roles {
		for _, stage := range []string{"checked", "decided", "pending", "charged"} {
			if got := provedKilled(t, role, stage, crash); !slices.Equal(got, want) {
				t.Errorf("%s killed when %s: another sum", role, stage)
			}
		}
	}
}

func provedKilled(t *testing.T, role Role, stage string, crash error) []int64 {
	t.Helper()
	w := proved(t, true)
	for i := range 6 {
		w.upload(i, vector(i))
	}
	shares := w.split(6, vector(6))
	shares[Helper][0] ^= 1
	w.send(6, shares)
	lists := w.lists()
	w.verify(role.Peer(), lists[role])
	killed := 0
	if stage != "" {
		w.sides[role].crash = func(at string) error {
			if at == stage {
				return crash
			}
			return nil
		}
	}
	half := w.must(w.sides[role.Peer()].VerifyHalf(w.asked.ID())).([]byte)
	settle := func() error {
		side := w.sides[role]
		err := side.Verify(w.Context(), w.asked.ID(), lists[role.Peer()], half)
		if err == nil && side.Proves(w.asked.ID()) {
			err = side.Decide(w.asked.ID(), w.records(role))
		}
		if err == nil {
			err = side.Aggregate(w.Context(), w.asked.ID(), lists[role.Peer()])
		}
		return err
	}
	var records []byte
	for {
		err := settle()
		if content, err := w.sides[role].Records(w.asked.ID(), 0); err == nil {
			if records != nil && !bytes.Equal(records, content) {
				t.Errorf("%s killed when %s: the records change", role, stage)
			}
			records = content
		}
		if err == nil {
			break
		}
		if killed++; !errors.Is(err, crash) || killed > 1 {
			t.Fatal(err)
		}
		w.open(role)
	}
	if (stage != "") != (killed == 1) {
		t.Errorf("stage %q: killed %d times", stage, killed)
	}
	w.decide(role.Peer())
	if err := w.sides[role.Peer()].Aggregate(w.Context(), w.asked.ID(), lists[role]); err != nil {
		t.Fatal(err)
	}
	steps, reports, err := Merge(w.asked, w.share(Leader), w.share(Helper))
	if err != nil || reports != 6 {
		t.Fatal(reports, err)
	}
	for _, role := range Roles {
		if n := len(w.configs[role].Ledger.Entries()); n != 1 || w.share(role).Refused != 1 {
			t.Errorf("%s: %d charges, %d refused", role, n, w.share(role).Refused)
		}
	}
	return steps
}

// TestFalseRecords: a report of which an aggregator sends a false record is left out by the other one, which counts it as refused;
// if the liar counts it all the same, the shares do not go together. The others' vectors are not touched.
func TestFalseRecords(t *testing.T) {
	for name, lie := range map[string]func(records []byte, size int){
		"a bit":           func(r []byte, size int) { r[3*size] ^= 1 },
		"a seed":          func(r []byte, size int) { r[4*size-1] ^= 1 },
		"another report":  func(r []byte, size int) { copy(r[3*size:4*size], r[2*size:]) },
		"a damaged share": func(r []byte, size int) { clear(r[3*size : 4*size]) },
		"the helper's":    nil,
	} {
		for _, admits := range []bool{false, true} {
			w := proved(t, true)
			for i := range 6 {
				w.upload(i, vector(i))
			}
			lists := w.lists()
			w.verifyAll(lists)
			size := w.must(w.asked.scheme()).(*rangeproof.Scheme).RecordBytes()
			mirrored := w.must(w.records(Leader)(0)).(*Proofs).Records
			err := w.sides[Helper].Decide(w.asked.ID(), func(from uint64) (*Proofs, error) {
				p, err := w.records(Helper)(from)
				if lie == nil {
					copy(p.Records[3*size:4*size], mirrored[3*size:])
				} else {
					lie(p.Records, size)
				}
				return p, err
			})
			if err != nil {
				t.Fatal(name, err)
			}
			if admits {
				b := w.sides[Leader].current
				left := slices.Delete(slices.Clone(lists[Leader]), 3, 4)
				testfile.Write(t, b.path(countedFile), AppendIDs(nil, left))
				b.optimistic = nil
			} else {
				w.decide(Leader)
			}
			for _, role := range Roles {
				if err := w.sides[role].Aggregate(w.Context(), w.asked.ID(), lists[role.Peer()]); err != nil {
					t.Fatal(name, err)
				}
			}
			if s := w.share(Helper); s.Refused != 1 || s.Reports != 5 {
				t.Errorf("%s: the helper refuses %d, counts %d", name, s.Refused, s.Reports)
			}
			sum := make([]int64, testValues)
			for i, key := range w.sides[Leader].Enrolled[:6] {
				for j, k := range vector(i) {
					if reportID(w.asked.ID(), key) != lists[Leader][3] {
						sum[j] += k
					}
				}
			}
			got, _, err := Merge(w.asked, w.share(Leader), w.share(Helper))
			if (err == nil) != admits || admits && !slices.Equal(got, w.noised(sum)) {
				t.Errorf("%s, admitted %v: %v", name, admits, err)
			}
		}
	}
}

// TestLargestSums: no announcement that is taken has sums that wrap around, with the most clients, the largest vectors
// that clients or liars can send, and noise of sixteen deviations.
func TestLargestSums(t *testing.T) {
	taken := map[string]int{}
	for _, proof := range []string{NoProof, RangeProof} {
		for _, clients := range []uint64{2, 1e5, 1 << 24, maxClients} {
			for _, sigma := range []float64{0.01, 0.6, 9, 1e3, 1e6} {
				for _, bound := range []float64{1e-99, 1, 1.999, 1e99} {
					a := &Announcement{Version: Version, Nonce: "n", Round: 1, Question: make([]byte, 32), Query: "mean", Values: 1,
						Bound: bound, Sigma: sigma, Clients: clients, Least: 2, Deadline: 1, Proof: proof}
					if a.Validate() != nil {
						continue
					}
					taken[fmt.Sprint(proof, clients)]++
					grid, err := a.Grid()
					if err != nil {
						t.Fatal(err)
					}
					end := int64(1) << (grid.Bits(bound) - 1)
					for _, v := range []float64{bound, -bound} {
						steps, err := grid.RoundBounded([]float64{v}, bound)
						if err != nil {
							t.Fatal(err)
						}
						noise := int64(math.Copysign(32*float64(grid.Units), v))
						honest, _ := a.largest(t, steps[0], noise)
						if limit := float64(clients)*float64(end) + 32*float64(grid.Units); limit >= 1<<62 || honest != nil {
							t.Errorf("%+v: a largest sum of %g: %v", a, limit, honest)
						}
						if _, liars := a.largest(t, max(1-end, min(end, end*steps[0])), noise); liars != nil {
							t.Errorf("%+v: a sum of liars: %v", a, liars)
						}
					}
				}
			}
		}
	}
	if len(taken) != 8 {
		t.Errorf("of clients and proofs, announcements are taken: %v", taken)
	}
}

// largest adds up as many equal vectors as there are clients, with noise: merged is what is wrong with [Merge], and added
// with the sum before its limit.
func (a *Announcement) largest(t *testing.T, value, noise int64) (merged, added error) {
	t.Helper()
	id, want := a.ID(), value*int64(a.Clients)+noise
	const mask = 1<<63 + 12345
	sides := map[Role]*Share{Leader: {Values: []uint64{uint64(want) - mask}}, Helper: {Values: []uint64{mask}}}
	if a.Proof == RangeProof {
		leader, helper := make(rangeproof.Vector, 1), make(rangeproof.Vector, 1)
		bits, err := a.Bits()
		if err != nil {
			t.Fatal(err)
		}
		rangeproof.Add(&helper[0], math.MaxInt64)
		rangeproof.Add(&leader[0], want)
		rangeproof.Add(&leader[0], int64(a.Clients)*(1<<(bits-1)-1)) // values are shifted
		leader.SubAssign(helper)
		for role, v := range map[Role]rangeproof.Vector{Leader: leader, Helper: helper} {
			if sides[role].Values, err = rangeproof.Words(v); err != nil {
				t.Fatal(err)
			}
		}
	}
	for role, s := range sides {
		s.Version, s.Role, s.Announcement, s.Reports = Version, string(role), id[:], a.Clients
	}
	got, err := a.addUp(sides[Leader], sides[Helper])
	if err != nil || got[0] != want {
		added = fmt.Errorf("%v, want %d: %v", got, want, err)
	}
	if got, _, err = Merge(a, sides[Leader], sides[Helper]); err != nil || got[0] != want {
		merged = fmt.Errorf("%v, want %d: %v", got, want, err)
	}
	return merged, added
}

// TestOneCheckOfAReport: whatever lists and keys the other aggregator sends later, a report is checked under one key,
// and nothing about another one is said.
func TestOneCheckOfAReport(t *testing.T) {
	w := proved(t, false)
	for i := range 6 {
		w.upload(i, vector(i))
	}
	_, err := w.sides[Leader].VerifyHalf(w.asked.ID())
	want(t, "the key while reports are taken", err, Waiting)
	_, err = w.sides[Leader].Records(w.asked.ID(), 0)
	want(t, "records while reports are taken", err, Waiting)
	w.now = deadline
	ids := w.must(w.sides[Helper].IDs(w.asked.ID())).([]ReportID)
	w.must(w.sides[Leader].IDs(w.asked.ID()))
	_, err = w.sides[Leader].Records(w.asked.ID(), 0)
	want(t, "records before they are made", err, Waiting)
	want(t, "half of a key", w.sides[Leader].Verify(w.Context(), w.asked.ID(), ids, make([]byte, 7)), Malformed)
	crash := errors.New("crash")
	w.sides[Leader].crash = func(string) error { return crash }
	half := bytes.Repeat([]byte{1}, keyBytes)
	if err := w.sides[Leader].Verify(w.Context(), w.asked.ID(), ids, half); !errors.Is(err,
		crash) { // killed before its records are on disk
		t.Fatal(err)
	}
	w.open(Leader)
	if err := w.sides[Leader].Verify(w.Context(), w.asked.ID(), ids[:4],
		bytes.Repeat([]byte{2}, keyBytes)); err != nil {
		t.Fatal(err)
	}
	b := w.sides[Leader].current
	if held := w.must(os.ReadFile(b.path(peerFile))).([]byte); !bytes.Equal(held, half) {
		t.Error("another half of the key is used")
	}
	if held := ParseIDs(w.must(os.ReadFile(b.path(bothFile))).([]byte)); !slices.Equal(held, ids) {
		t.Errorf("other reports are checked: %d", len(held))
	}
	for _, role := range Roles {
		other := *w.asked
		other.Proof, other.Nonce = NoProof, "other"
		_, err = w.sides[role].Records(other.ID(), 0)
		want(t, "records of another batch", err, Unannounced)
	}
	_, err = w.sides[Leader].Records(w.asked.ID(), 7)
	want(t, "records that there are not", err, Malformed)
	if err := w.sides[Leader].Aggregate(w.Context(), w.asked.ID(), ids); OutcomeOf(err) != Waiting {
		t.Errorf("a share before the proofs are decided: %v", err)
	}
}

// TestRecordsAreChecked: records of another batch, another aggregator, another place or another length decide nothing.
func TestRecordsAreChecked(t *testing.T) {
	w := proved(t, true)
	for i := range 6 {
		w.upload(i, vector(i))
	}
	lists := w.lists()
	w.verifyAll(lists)
	for name, change := range map[string]func(*Proofs){
		"version":      func(p *Proofs) { p.Version++ },
		"role":         func(p *Proofs) { p.Role = string(Leader) },
		"announcement": func(p *Proofs) { p.Announcement = make([]byte, sha256.Size) },
		"batch":        func(p *Proofs) { p.Batch = make([]byte, sha256.Size) },
		"place":        func(p *Proofs) { p.First++ },
		"none":         func(p *Proofs) { p.Records = nil },
		"cut":          func(p *Proofs) { p.Records = p.Records[1:] },
		"too many":     func(p *Proofs) { p.Records = append(p.Records, p.Records...) },
	} {
		err := w.sides[Leader].Decide(w.asked.ID(), func(from uint64) (*Proofs, error) {
			p, err := w.records(Leader)(from)
			if err == nil {
				change(p)
			}
			return p, err
		})
		want(t, name, err, Malformed)
		if !w.sides[Leader].Proves(w.asked.ID()) {
			t.Fatalf("%s: it is decided", name)
		}
	}
	// One record at a time.
	err := w.sides[Leader].Decide(w.asked.ID(), func(from uint64) (*Proofs, error) {
		p, err := w.records(Leader)(from)
		if err == nil {
			p.Records = p.Records[:w.must(w.asked.scheme()).(*rangeproof.Scheme).RecordBytes()]
		}
		return p, err
	})
	want(t, "one at a time", err, Accepted)
	if ids, refused, err := w.sides[Leader].current.countedReports(); err != nil || refused != 0 || len(ids) != 6 {
		t.Errorf("%d count, %d are refused, %v", len(ids), refused, err)
	}
}

// FuzzProvedReport: with proofs too, no bytes but a client's own report are taken.
func FuzzProvedReport(f *testing.F) {
	w := proved(f, true)
	good := w.report(0, Helper, vector(0))
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := w.sides[Helper].Accept(b); (err == nil || OutcomeOf(err) == Repeated) && !bytes.Equal(b, good) {
			t.Errorf("%x is taken", b)
		}
	})
}

// TestVerifyEnds: an aggregator that is told to end while it checks proofs ends, and checks them when it runs again.
func TestVerifyEnds(t *testing.T) {
	w := proved(t, true)
	for i := range 6 {
		w.upload(i, vector(i))
	}
	w.now = deadline
	ids := w.must(w.sides[Helper].IDs(w.asked.ID())).([]ReportID)
	w.must(w.sides[Leader].IDs(w.asked.ID()))
	ended, end := context.WithCancel(t.Context())
	end()
	half := bytes.Repeat([]byte{1}, keyBytes)
	if err := w.sides[Leader].Verify(ended, w.asked.ID(), ids, half); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err := w.sides[Leader].Records(w.asked.ID(), 0)
	want(t, "records of a check that was ended", err, Waiting)
	w.open(Leader)
	if err := w.sides[Leader].Verify(t.Context(), w.asked.ID(), ids, half); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sides[Leader].Records(w.asked.ID(), 0); err != nil {
		t.Fatal(err)
	}
}
