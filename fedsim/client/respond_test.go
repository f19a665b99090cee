package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/internal/fault"
	"popri/model/embedding"
	"popri/scoring"
	"popri/testkit/testfederation"
	"popri/testkit/testfile"
)

// world is a federation and one question of it.
type world struct {
	*testing.T
	*testfederation.Federation
	encoder embedding.Encoder
	files   [][]byte
	asked   *aggregate.Announcement
}

// newWorld makes a world whose encoder is fitted on some texts and more.
func newWorld(t *testing.T, more ...string) *world {
	t.Helper()
	w := &world{T: t, Federation: testfederation.New(t, 2, nil)}
	var err error
	fitted := append(more, "snow at night", "a quiet harbour", "rain in the north")
	if w.encoder, err = embedding.FitHashing(fitted, embedding.HashingConfig{}); err != nil {
		t.Fatal(err)
	}
	mean, err := scoring.NewMean(w.encoder.Dim(), scoring.MeanOptions{Full: true, Bound: 1}, "k")
	if err != nil {
		t.Fatal(err)
	}
	described, err := scoring.Describe(mean)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	q := aggregate.Question{About: aggregate.Embeddings{Question: described, Encoder: embedding.Key(w.encoder)}, Round: 1, Clients: 2}
	if err := errors.Join(q.Write(filepath.Join(dir, "question")), embedding.Save(filepath.Join(dir, "encoder"),
		w.encoder)); err != nil {
		t.Fatal(err)
	}
	var hashes [][]byte
	for _, name := range []string{"question", "encoder"} {
		content := testfile.Read(t, filepath.Join(dir, name))
		hash := sha256.Sum256(content)
		w.files, hashes = append(w.files, content), append(hashes, hash[:])
	}
	w.asked = &aggregate.Announcement{Version: aggregate.Version, Nonce: "1", Round: 1, Question: hashes[0],
		Encoder: hashes[1], Query: mean.Name(),
		Values: uint64(mean.Len()), Bound: 1, Sigma: 2, Clients: 2, Least: 2,
		Deadline: uint64(w.Now().Add(time.Hour / 2).Unix())}
	return w
}

func (w *world) announce(role aggregate.Role, a *aggregate.Announcement) {
	w.T.Helper()
	r := w.Remote(role, identity.Trainer)
	defer r.Close()
	for _, content := range w.files {
		if err := r.PutFile(w.Context(), content); err != nil {
			w.Fatal(err)
		}
	}
	if err := r.Announce(w.Context(), a); err != nil {
		w.Fatal(err)
	}
}

// responder is client 1 with a record in dir.
func (w *world) responder(dir string, change func(*ResponderOptions)) *Responder {
	w.T.Helper()
	key, err := identity.ReadClientKey(identity.ClientKeyPath(w.Dir, 1))
	if err != nil {
		w.Fatal(err)
	}
	o := ResponderOptions{Federation: w.Federation.Federation, Key: key, Dir: dir, Epsilon: 4, Delta: 1e-3,
		AnnouncedEncoder: true, Open: embedding.LoadSaved, AtOnce: true,
		Texts: func(string) ([]string, error) { return []string{"rain in the north", "snow at night"}, nil }}
	if change != nil {
		change(&o)
	}
	r, err := NewResponder(o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { r.Close() })
	return r
}

// TestAnsweredOnce: a client that dies before, between or after its uploads, or whose aggregators do, sends the same
// bytes when it continues, and pays once.
func TestAnsweredOnce(t *testing.T) {
	w := newWorld(t)
	for _, role := range aggregate.Roles {
		w.announce(role, w.asked)
	}
	dir := t.TempDir()
	r := w.responder(dir, nil)
	a, err := r.Next(t.Context(), time.Millisecond)
	if err != nil || a.ID() != w.asked.ID() {
		t.Fatal(a, err)
	}
	w.Kill(aggregate.Helper)
	ctx, cancel := context.WithCancel(t.Context())
	w.OnReport(aggregate.Leader, cancel) // it dies when the leader has its report
	if err := r.Answer(ctx, a); !errors.Is(err, context.Canceled) {
		t.Fatalf("without a helper: %v", err)
	}
	sent := testfile.Read(t, r.path(a, string(aggregate.Leader)))
	r.Close()
	w.Kill(aggregate.Leader)
	r = w.responder(dir, nil)
	if unfinished, err := r.Next(t.Context(), time.Millisecond); err != nil || unfinished.ID() != a.ID() {
		t.Fatalf("what was begun does not come first, whatever is announced: %v", err)
	}
	w.Start(aggregate.Leader)
	w.Start(aggregate.Helper)
	if again, err := r.reports(t.Context(), a, time.Now().Add(time.Hour)); err != nil || !bytes.Equal(again[aggregate.Leader], sent) {
		t.Errorf("other bytes are sent: %v", err)
	}
	if err := r.Answer(t.Context(), a); err != nil || !r.sent(a) {
		t.Fatal(err)
	}
	if entries := r.ledger.Entries(); len(entries) != 1 || entries[0].Sigma != 2 {
		t.Errorf("charges %+v", entries)
	}
	for _, role := range aggregate.Roles {
		if _, held, _, _ := w.Aggregator(role).Counts(); held != 1 {
			t.Errorf("the %s holds %d reports", role, held)
		}
	}
}

// TestOwnBudget: a client's own record refuses what is beyond its own budget, no matter who asks, and a budget that protects
// nobody.
func TestOwnBudget(t *testing.T) {
	w := newWorld(t)
	for _, role := range aggregate.Roles {
		w.announce(role, w.asked)
	}
	dir := t.TempDir()
	r := w.responder(dir, func(o *ResponderOptions) { o.Epsilon = 2 })
	if err := r.Answer(t.Context(), w.asked); err != nil {
		t.Fatal(err)
	}
	other := *w.asked // of another run
	other.Nonce = "another run"
	if err := r.Answer(t.Context(), &other); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
	r.Close()
	r = w.responder(t.TempDir(), func(o *ResponderOptions) { o.Delta = 0.6 })
	if err := r.Answer(t.Context(), w.asked); !fault.IsUser(err) || !strings.Contains(err.Error(), "1/clients") {
		t.Errorf("δ above 1/clients: %v", err)
	}
	seeded := *w.asked
	seeded.InsecureSeed = true
	if err := w.responder(t.TempDir(), nil).Answer(t.Context(), &seeded); !fault.IsUser(err) {
		t.Errorf("noise from a seed: %v", err)
	}
	if _, err := NewResponder(ResponderOptions{Federation: w.Federation.Federation, Dir: dir, Epsilon: 3,
		Delta: 1e-3}); !fault.IsUser(err) {
		t.Errorf("the record of another budget: %v", err)
	}
}

// TestOwnerDecides: nothing is charged or sent if the owner of the texts does not agree, and the owner is asked once.
func TestOwnerDecides(t *testing.T) {
	w := newWorld(t)
	for _, role := range aggregate.Roles {
		w.announce(role, w.asked)
	}
	agrees, asked := false, 0
	r := w.responder(t.TempDir(), func(o *ResponderOptions) {
		o.Confirm = func(offer Offer) error {
			if asked++; offer.Texts != 2 || !(offer.Cost > 0) || offer.Spent < offer.Cost {
				t.Errorf("the offer is %+v", offer)
			}
			if !agrees {
				return ErrNotConfirmed
			}
			return nil
		}
	})
	if err := r.Answer(t.Context(), w.asked); !errors.Is(err, ErrNotConfirmed) || len(r.ledger.Entries()) != 0 {
		t.Errorf("%v, charges %+v", err, r.ledger.Entries())
	}
	agrees = true
	late := *w.asked
	late.Deadline = uint64(time.Now().Add(2 * time.Second).Unix())
	wait := r.Confirm
	r.Confirm = func(offer Offer) error {
		time.Sleep(time.Until(late.Ends()))
		return wait(offer)
	}
	if err := r.Answer(t.Context(), &late); err == nil || len(r.ledger.Entries()) != 0 {
		t.Errorf("agreed after the deadline: %v, charges %+v", err, r.ledger.Entries())
	}
	if err := r.Answer(t.Context(), w.asked); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	if _, held, _, _ := w.Aggregator(aggregate.Leader).Counts(); held != 1 {
		t.Errorf("%d reports", held)
	}
}

// failing is an encoder that gives NaN for the texts with a word, panics at another one and fails at a third.
type failing struct{ *embedding.Hashing }

func (f failing) Encode(texts []string) (embedding.Matrix, error) {
	m, err := f.Hashing.Encode(texts)
	switch all := strings.Join(texts, " "); {
	case strings.Contains(all, "harbour"):
		m.Data[0] = float32(math.NaN())
	case strings.Contains(all, "wolf"):
		panic("wolf")
	case strings.Contains(all, "boat"):
		err = errors.New("boat")
	}
	return m, err
}

// TestNothingDependsOnTexts: whatever a client has written, and whether its texts can be read, it answers, is charged and
// sends as many bytes, though the encoder was made to fail at a word.
func TestNothingDependsOnTexts(t *testing.T) {
	w := newWorld(t)
	for _, role := range aggregate.Roles {
		w.announce(role, w.asked)
	}
	open := func(path string) (embedding.Encoder, error) {
		e, err := embedding.LoadSaved(path)
		return failing{e.(*embedding.Hashing)}, err
	}
	var sizes []int
	for name, texts := range map[string]func(string) ([]string, error){
		"no such word": func(string) ([]string, error) { return []string{"rain in the north"}, nil },
		"NaN":          func(string) ([]string, error) { return []string{"rain", "a quiet harbour"}, nil },
		"panic":        func(string) ([]string, error) { return []string{"a wolf"}, nil },
		"error":        func(string) ([]string, error) { return []string{"a boat"}, nil },
		"unreadable":   func(string) ([]string, error) { return nil, errors.New("the mailbox is damaged") },
	} {
		r := w.responder(t.TempDir(), func(o *ResponderOptions) { o.Open, o.Texts = open, texts })
		reports, err := r.reports(t.Context(), w.asked, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, role := range aggregate.Roles {
			sizes = append(sizes, len(reports[role]))
		}
		if err := r.charge(w.asked); err != nil || len(r.ledger.Entries()) != 1 {
			t.Errorf("%s: %v, %d charges", name, err, len(r.ledger.Entries()))
		}
	}
	slices.Sort(sizes)
	if len(slices.Compact(sizes)) != 2 {
		t.Errorf("the reports have the sizes %v", sizes)
	}
}

// TestAnnouncedEncoder: an encoder that comes with a question is used where the owner agrees to it, by name or by being
// asked, and not in place of the client's own.
func TestAnnouncedEncoder(t *testing.T) {
	w := newWorld(t)
	for _, role := range aggregate.Roles {
		w.announce(role, w.asked)
	}
	own := func(o *ResponderOptions) { o.AnnouncedEncoder = false }
	if _, err := w.responder(t.TempDir(), own).reports(t.Context(), w.asked, time.Now().Add(time.Hour)); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "--announced-encoder") {
		t.Errorf("without anybody's agreement: %v", err)
	}
	var offered []string
	r := w.responder(t.TempDir(), func(o *ResponderOptions) {
		own(o)
		o.Confirm = func(offer Offer) error {
			offered = append(offered, offer.Encoder)
			return nil
		}
	})
	other := *w.asked
	other.Nonce = "again"
	for _, a := range []*aggregate.Announcement{w.asked, &other} {
		if _, err := r.reports(t.Context(), a, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if want := hex.EncodeToString(w.asked.Encoder); !slices.Equal(offered, []string{want}) {
		t.Errorf("the owner was asked about the encoders %q, want %s once", offered, want)
	}
	opened := ""
	r = w.responder(t.TempDir(), func(o *ResponderOptions) {
		own(o)
		o.Encoder = "mine"
		o.Open = func(path string) (embedding.Encoder, error) { opened = path; return w.encoder, nil }
	})
	if _, err := r.reports(t.Context(), w.asked, time.Now().Add(time.Hour)); err != nil || opened != "mine" {
		t.Errorf("%q was opened: %v", opened, err)
	}
}

// TestGroupIsAskedAgain: the owner of many clients' texts is asked once for all of them, and again for another encoder.
func TestGroupIsAskedAgain(t *testing.T) {
	w, other := newWorld(t), newWorld(t, "wind from the west")
	dir := t.TempDir()
	o := GroupOptions{Private: filepath.Join(dir, "clients.parquet"), Keys: filepath.Join(dir, "keys"),
		Record: filepath.Join(dir, "record"), ResponderOptions: ResponderOptions{Federation: w.Federation.Federation, Epsilon: 9,
			Delta: 1e-3, Open: embedding.LoadSaved, AtOnce: true}}
	var offered []string
	o.Confirm = func(offer Offer) error {
		offered = append(offered, offer.Encoder)
		return nil
	}
	p := &clients.Population{Name: "p", Unit: "u"}
	for _, id := range []string{"a", "b"} {
		p.Clients = append(p.Clients, clients.Client{ID: id, Split: clients.Train, Texts: []string{"rain"}})
	}
	if err := errors.Join(clients.Write(o.Private, p), EnrolGroup(o.Keys, o.Private, func(string) error { return nil })); err != nil {
		t.Fatal(err)
	}
	g, err := NewGroup(o)
	if err != nil {
		t.Fatal(err)
	}
	var log, want []string
	seen := observer{slices.Concat(w.files, other.files), &log, time.Now()}
	g.remotes = map[aggregate.Role]carrier{aggregate.Leader: seen, aggregate.Helper: seen}
	for _, a := range []*aggregate.Announcement{w.asked, other.asked} {
		if tally, err := g.Answer(t.Context(), a); err != nil || tally != (Tally{Answered: 2}) {
			t.Fatalf("%+v, %v", tally, err)
		}
		want = append(want, hex.EncodeToString(a.Encoder))
	}
	if !slices.Equal(offered, want) {
		t.Errorf("the owner was asked about the encoders %q, want %q", offered, want)
	}
}

// TestNotEnrolled: a client whose key is not enrolled is told so before it is charged.
func TestNotEnrolled(t *testing.T) {
	w := newWorld(t)
	for _, role := range aggregate.Roles {
		w.announce(role, w.asked)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := w.responder(t.TempDir(), func(o *ResponderOptions) { o.Key = key })
	if err := r.Answer(t.Context(), w.asked); !fault.IsUser(err) || !strings.Contains(err.Error(), "enrolled.txt") ||
		len(r.ledger.Entries()) != 0 {
		t.Errorf("%v, charges %+v", err, r.ledger.Entries())
	}
}

// TestCarriedFiles: what another carrier delivers is compared with the hash that was announced.
func TestCarriedFiles(t *testing.T) {
	dir := t.TempDir()
	hash := sha256.Sum256([]byte("a question"))
	testfile.Write(t, filepath.Join(dir, hex.EncodeToString(hash[:])), "another")
	if _, err := fetch(t.Context(), folder{dir, aggregate.Leader}, t.TempDir(), hash[:]); !fault.IsUser(err) {
		t.Errorf("another file is taken: %v", err)
	}
}

// TestLostOnTheWay: reports that another carrier lost are made again, with the same bytes and one charge, and a folder
// without reports does not keep another one's from being sent.
func TestLostOnTheWay(t *testing.T) {
	w := newWorld(t)
	for _, role := range aggregate.Roles {
		w.announce(role, w.asked)
	}
	dir, empty := t.TempDir(), t.TempDir()
	if _, err := Fetch(t.Context(), w.Federation.Federation, dir); err != nil {
		t.Fatal(err)
	}
	r := w.responder(t.TempDir(), func(o *ResponderOptions) { o.Folder = dir })
	var sent [2]string
	for i := range sent {
		a, err := r.Next(t.Context(), time.Hour)
		if err == nil {
			err = r.Answer(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range aggregate.Roles {
			path := filepath.Join(dir, reportFile(role))
			if sent[i] += string(testfile.Read(t, path)); i == 0 {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if sent[0] != sent[1] || len(r.ledger.Entries()) != 1 {
		t.Errorf("the second reports have the bytes of the first: %v; charges %+v", sent[0] == sent[1], r.ledger.Entries())
	}
	if err := Send(t.Context(), w.Federation.Federation, []string{empty, dir}); err == nil || !strings.Contains(err.Error(), empty) ||
		strings.Contains(err.Error(), dir+":") {
		t.Errorf("a folder without reports: %v", err)
	}
	for _, role := range aggregate.Roles {
		if _, held, _, _ := w.Aggregator(role).Counts(); held != 1 {
			t.Errorf("the %s holds %d reports, want 1", role, held)
		}
	}
}

// TestOtherQuestions: a client answers what both aggregators announce alike, and what its question says.
func TestOtherQuestions(t *testing.T) {
	w := newWorld(t)
	w.announce(aggregate.Leader, w.asked)
	other := *w.asked
	other.Sigma = 1.5
	w.announce(aggregate.Helper, &other)
	r := w.responder(t.TempDir(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if a, err := r.Next(ctx, time.Millisecond); a != nil || err == nil {
		t.Error("what the two announce differently is answered")
	}
	for name, change := range map[string]func(*aggregate.Announcement){"bound": func(a *aggregate.Announcement) { a.Bound = 2 },
		"values":  func(a *aggregate.Announcement) { a.Values++ },
		"clients": func(a *aggregate.Announcement) { a.Clients++ },
		"round":   func(a *aggregate.Announcement) { a.Round++ },
		"query":   func(a *aggregate.Announcement) { a.Query = "mean" }} {
		a := *w.asked
		change(&a)
		if err := r.Answer(t.Context(), &a); err == nil || !strings.Contains(err.Error(), "announced was") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if n := len(r.ledger.Entries()); n != 0 {
		t.Errorf("%d charges", n)
	}
}

// TestOwnCoin: with a rate, a client sends its vector or zeros; without texts it sends zeros.
func TestOwnCoin(t *testing.T) {
	w := newWorld(t)
	w.announce(aggregate.Leader, w.asked)
	a := *w.asked
	a.Rate = 0.5
	r := w.responder(t.TempDir(), nil)
	grid, err := a.Grid()
	if err != nil {
		t.Fatal(err)
	}
	zeros := 0
	const tosses = 200
	for range tosses {
		v, _, err := r.vector(t.Context(), &a, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(v, func(k int64) bool { return k != 0 }) {
			zeros++
		}
	}
	if zeros < tosses/2-50 || zeros > tosses/2+50 { // seven standard deviations
		t.Errorf("%d of %d vectors are zeros at a rate of a half", zeros, tosses)
	}
	mean, err := scoring.NewMean(w.encoder.Dim(), scoring.MeanOptions{Full: true, Bound: 1}, "k")
	if err != nil {
		t.Fatal(err)
	}
	v, err := embedded(mean, w.encoder).steps(t.Context(), mean, nil, grid)
	if err != nil || slices.ContainsFunc(v, func(k int64) bool { return k != 0 }) {
		t.Errorf("without texts: %v", err)
	}
}
