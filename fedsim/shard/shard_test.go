package shard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/fedsim/sealing"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

const dim = 6

// samples are random unit vectors.
func samples(n int) embedding.Matrix {
	m := embedding.NewMatrix(n, dim)
	r := rng.New(1, "samples")
	for i := range m.Data {
		m.Data[i] = float32(r.NormFloat64())
	}
	return scoring.Unit(m)
}

// people are made-up clients' means.
func people(n int) query.Clients {
	c := query.Clients{Means: query.Means{Clients: n, Dim: dim}}
	r := rng.New(2, "people")
	for range n * dim {
		c.Data = append(c.Data, r.NormFloat64()/3)
	}
	return c
}

// question writes a question about samples and reads it again.
func question(t testing.TB, change func(*Question)) (Question, query.Mergeable) {
	t.Helper()
	asked, err := scoring.NewCompact(samples(20), scoring.Options{Normalize: scoring.Standardized, Clip: 2},
		"key of the samples")
	if err != nil {
		t.Fatal(err)
	}
	described, err := scoring.Describe(asked)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Question: described, Round: 3, Clients: 40, Encoder: "encoder-1"}
	if change != nil {
		change(&q)
	}
	path := filepath.Join(t.TempDir(), "question.safetensors")
	if err := q.Write(path); err != nil {
		t.Fatal(err)
	}
	read, m, err := ReadQuestion(path)
	if err != nil {
		t.Fatal(err)
	}
	return read, m
}

// TestForm: a question says the weight of form, one without form is written as before, and an impossible weight is
// refused.
func TestForm(t *testing.T) {
	q, _ := question(t, func(q *Question) { q.Form = 0.5 })
	e, err := embedding.FitHashing([]string{"one", "two"}, embedding.HashingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if form, ok := q.With(e).(*embedding.Form); !ok || form.Weight != 0.5 || form.Encoder != embedding.Encoder(e) {
		t.Errorf("the encoder is %v", q.With(e))
	}
	if q, _ := question(t, nil); q.With(e) != embedding.Encoder(e) {
		t.Error("a question without form measures it")
	}
	for _, weight := range []float64{-1, 11} {
		bad := q
		bad.Form = weight
		path := filepath.Join(t.TempDir(), "question")
		if err := bad.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadQuestion(path); !fault.IsUser(err) || !strings.Contains(err.Error(), "weight") {
			t.Errorf("weight %g: %v", weight, err)
		}
	}
}

// keys makes a key pair and reads it again.
func keys(t testing.TB) (sealing.PrivateKey, sealing.PublicKey) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := sealing.GenerateKey(path); err != nil {
		t.Fatal(err)
	}
	private, err := sealing.ReadPrivateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	public, err := sealing.ReadPublicKey(path + sealing.PublicSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

// shards divides all clients among n shards by ID and writes their partial sums.
func shards(t testing.TB, q Question, m query.Mergeable, to sealing.PublicKey, all query.Clients, n int) []string {
	t.Helper()
	var parts []string
	for i := range n {
		var which []int
		var members Members
		for k := range all.Clients {
			if id := fmt.Sprint("client-", k); Of(id, n) == i+1 {
				which = append(which, k)
				members.Add(id)
			}
		}
		sum, err := m.Partial(all.Select(which))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), fmt.Sprint(i+1))
		if err := Seal(path, to, q, Place{i + 1, n, ByID}, members, sum); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, path)
	}
	return parts
}

// However many shards there are, and in whatever order they are given, they merge to the sum of one process.
func TestMerge(t *testing.T) {
	q, m := question(t, nil)
	private, public := keys(t)
	all := people(40)
	want, err := m.Sum(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 7, 60} { // with more shards than clients, some have none
		parts := shards(t, q, m, public, all, n)
		slices.Reverse(parts)
		sum, err := Merge(private, q, parts)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Finish(sum); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d shards: the sum is not the same to the last bit (%v)", n, err)
		}
	}
}

// The question that is read is the one that was asked, for every kind, and its file does not depend on when it is
// written.
func TestQuestion(t *testing.T) {
	for _, name := range []string{"cosine/none", "cosine/standardize", "compact/none", "mean", "mean/full+5",
		"votes/l2/2/mean"} {
		asked, err := scoring.Ask(name, 1.5, samples(9), "key")
		if err != nil {
			t.Fatal(err)
		}
		described, err := scoring.Describe(asked)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for range 2 {
			q, m := question(t, func(q *Question) { q.Question, q.Since = described, "1945-06" })
			ids = append(ids, q.ID)
			if q.Round != 3 || q.Clients != 40 || q.Since != "1945-06" || m.Name() != asked.Name() ||
				m.Key() != asked.Key() || m.Bound() != asked.Bound() || m.Len() != asked.Len() || q.Dim() != dim {
				t.Errorf("%s is read as %+v", name, q)
			}
			if m.NeedsTexts() {
				continue
			}
			x, err := asked.Sum(people(5))
			y, errRead := m.Sum(people(5))
			if err != nil || errRead != nil || !slices.Equal(x, y) {
				t.Errorf("%s: the sum is another one (%v, %v)", name, err, errRead)
			}
		}
		if ids[0] != ids[1] {
			t.Errorf("%s: written twice, the file differs", name)
		}
	}
}

func refusal(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil || !fault.IsUser(err) {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q lacks %q", what, err, word)
		}
	}
}

// TestTampering: a flipped bit anywhere, a changed header, another key, question or round, missing and doubled shards
// are refused.
func TestTampering(t *testing.T) {
	q, m := question(t, nil)
	private, public := keys(t)
	all := people(40)
	parts := shards(t, q, m, public, all, 2)
	content, err := os.ReadFile(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	header := bytes.IndexByte(content, '\n')
	for at := 0; at < len(content); at += 1 + at/97 {
		changed := slices.Clone(content)
		changed[at] ^= 1 << (at % 8)
		if err := os.WriteFile(parts[0], changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Merge(private, q, parts); !errors.Is(err, ErrPart) {
			t.Errorf("bit %d of byte %d, of a header of %d: %v", at%8, at, header, err)
		}
	}
	for what, c := range map[string]struct {
		old, new string
		words    []string
	}{
		"another number of clients": {`"clients":`, `"clients": `, []string{"changed"}},
		"another round":             {`"round":3`, `"round":4`, []string{"round 4", "want round 3"}},
		"another bound":             {`"norm_bound":2`, `"norm_bound":4`, []string{"norm bound 4", "with 2"}},
		"another encoder":           {`encoder-1`, `encoder-2`, []string{"encoder-2", "encoder-1"}},
		"another shard":             {`"shard":1`, `"shard":2`, []string{"twice", parts[0]}},
		"more shards":               {`"of":2`, `"of":3`, []string{"shard"}},
		"another assignment":        {`"assignment":"id"`, `"assignment":"file"`, []string{"assigned"}},
		"another key of samples":    {`key of the samples`, `key of the Samples`, []string{"another question"}},
		"a longer block":            {`,6]`, `,7]`, nil},
	} {
		changed := bytes.Replace(content, []byte(c.old), []byte(c.new), 1)
		if bytes.Equal(changed, content) && what != "a longer block" {
			t.Fatalf("%s: the header has no %s: %s", what, c.old, content[:header])
		}
		if bytes.Equal(changed, content) {
			continue
		}
		if err := os.WriteFile(parts[0], changed, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Merge(private, q, parts)
		refusal(t, what, err, c.words...)
	}
	for what, changed := range map[string][]byte{"nothing": nil, "a header alone": content[:header+1],
		"cut": content[:len(content)-1], "added to": append(slices.Clone(content), 0)} {
		if err := os.WriteFile(parts[0], changed, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Merge(private, q, parts)
		refusal(t, what, err, parts[0])
	}
	if err := os.WriteFile(parts[0], content, 0o600); err != nil {
		t.Fatal(err)
	}

	other, _ := keys(t)
	_, err = Merge(other, q, parts)
	refusal(t, "another key", err, "encrypted to the key")
	_, err = Merge(private, q, parts[:1])
	refusal(t, "a missing shard", err, "of 2 shards, 2: not given")
	_, err = Merge(private, q, []string{parts[0], parts[1], parts[0]})
	refusal(t, "a doubled shard", err, "twice")
	_, err = Merge(private, q, []string{parts[0], shards(t, q, m, public, all, 3)[1]})
	refusal(t, "a shard of other ones", err, "2/3")
	for what, change := range map[string]func(*Question){
		"round": func(q *Question) { q.Round = 4 }, "bound": func(q *Question) { q.Bound = 1 },
		"key":     func(q *Question) { q.Key = "x" },
		"encoder": func(q *Question) { q.Encoder = "x" }, "date": func(q *Question) { q.Since = "1999" }} {
		asked, _ := question(t, change)
		_, err := Merge(private, asked, parts)
		refusal(t, "another "+what, err, parts[0])
	}
	asked, m := question(t, func(q *Question) { q.Clients = 41 })
	_, err = Merge(private, asked, shards(t, asked, m, public, all, 2))
	refusal(t, "another number of clients", err, "40 clients", "41")
}

// TestSameClientsTwice: two shards of the same clients, which only files can have, are refused although all else fits.
func TestSameClientsTwice(t *testing.T) {
	q, m := question(t, nil)
	private, public := keys(t)
	var parts []string
	for i := range 2 {
		var members Members
		for k := range 20 {
			members.Add(fmt.Sprint("client-", (k+7*i)%20)) // in another order
		}
		sum, err := m.Partial(people(20))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, filepath.Join(t.TempDir(), "part"))
		if err := Seal(parts[i], public, q, Place{i + 1, 2, ByFile}, members, sum); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Merge(private, q, parts)
	refusal(t, "the same clients", err, parts[1], "same clients", parts[0])
}

// A partial sum tells nothing but its header: the same clients give other bytes each time, and the length of the file
// does not depend on what clients wrote.
func TestSealed(t *testing.T) {
	q, m := question(t, nil)
	_, public := keys(t)
	empty := query.Clients{Means: query.Means{Clients: 40, Dim: dim, Data: make([]float64, 40*dim)}}
	var sealed [][]byte
	for _, all := range []query.Clients{people(40), people(40), empty} {
		p, err := ReadPart(shards(t, q, m, public, all, 1)[0])
		if err != nil {
			t.Fatal(err)
		}
		sum, err := m.Partial(all)
		if err != nil {
			t.Fatal(err)
		}
		if plain := sum.AppendTo(nil); bytes.Contains(p.sealed, plain[:16]) &&
			!bytes.Equal(plain[:16], make([]byte, 16)) {
			t.Error("the sum stands in the file")
		}
		sealed = append(sealed, p.sealed)
	}
	if bytes.Equal(sealed[0], sealed[1]) || len(sealed[0]) != len(sealed[2]) {
		t.Error("the ciphertext repeats, or its length depends on the sum")
	}
	long := -1
	paths := append(shards(t, q, m, public, people(40), 12), shards(t, q, m, public, people(40), 1)...) // of 2 to 7, and of 40 clients
	for i, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if long < 0 {
			long = len(content)
		}
		if len(content) != long {
			t.Errorf("file %d has %d bytes, the first %d", i+1, len(content), long)
		}
	}
}

// A partial sum of one run does not answer the same question of another.
func TestNonce(t *testing.T) {
	private, public := keys(t)
	one, m := question(t, func(q *Question) { q.Nonce = "one" })
	parts := shards(t, one, m, public, people(40), 2)
	if _, err := Merge(private, one, parts); err != nil {
		t.Fatal(err)
	}
	other, _ := question(t, func(q *Question) { q.Nonce = "other" })
	_, err := Merge(private, other, parts)
	refusal(t, "another run's partial sum", err, parts[0], "another question")
}

func TestPlaces(t *testing.T) {
	for _, p := range []Place{{0, 1, ByID}, {2, 1, ByID}, {1, 0, ByID}, {1, MaxShards + 1, ByID}, {1, 1, "x"}} {
		refusal(t, fmt.Sprint(p), p.Validate())
	}
	if Of("ann", 3) != 3 || Of("ann", 1) != 1 { // never changes: files of two versions must not overlap
		t.Errorf("ann is in shard %d of 3", Of("ann", 3))
	}
	count := make([]int, 5)
	for i := range 10_000 {
		count[Of(fmt.Sprint(i), 5)-1]++
	}
	for i, n := range count {
		if n < 1800 || n > 2200 {
			t.Errorf("shard %d has %d of 10000 clients", i+1, n)
		}
	}
}

// FuzzPart: any file is refused or read as a part whose header is the file's; nothing allocates more than the file's
// size.
func FuzzPart(f *testing.F) {
	q, m := question(f, nil)
	_, public := keys(f)
	for _, path := range shards(f, q, m, public, people(9), 2) {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
		f.Add(content[:len(content)/2])
	}
	f.Add([]byte(`{"format":"popri partial sum 1","shard":1,"of":1,"assignment":"id","shape":[[0,1152921504606846976],[0,-3]]}` +
		"\n"))
	private, _ := keys(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := parsePart("part", content)
		if err != nil {
			if !errors.Is(err, ErrPart) {
				t.Errorf("%v", err)
			}
			return
		}
		if !bytes.Equal(append(slices.Clone(p.line), p.sealed...), content) {
			t.Error("the part is not the file")
		}
		if _, err := p.open(private); !errors.Is(err, ErrPart) {
			t.Errorf("opened by a key that it is not for: %v", err)
		}
	})
}
