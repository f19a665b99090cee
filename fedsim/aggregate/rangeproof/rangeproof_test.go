package rangeproof

import (
	"bytes"
	"compress/gzip"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"popri/internal/rng"
)

// vectors is a file of the draft's test vectors.
type vectors struct {
	Shares  uint8    `json:"shares"`
	Length  uint     `json:"length"`
	Bits    uint     `json:"bits"`
	Chunk   uint     `json:"chunk_length"`
	Context hexBytes `json:"ctx"`
	Key     hexBytes `json:"verify_key"`
	Result  []uint64 `json:"agg_result"`
	Prep    []struct {
		Measurement []uint64     `json:"measurement"`
		Inputs      []hexBytes   `json:"input_shares"`
		Nonce       hexBytes     `json:"nonce"`
		Outs        [][]hexBytes `json:"out_shares"`
		Messages    []hexBytes   `json:"prep_messages"`
		Records     [][]hexBytes `json:"prep_shares"`
		Public      hexBytes     `json:"public_share"`
		Random      hexBytes     `json:"rand"`
	} `json:"prep"`
}

type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		*h, err = hex.DecodeString(text)
	}
	return err
}

func readVectors(t *testing.T) map[string]vectors {
	t.Helper()
	paths, err := filepath.Glob("testdata/Prio3SumVec_*.json.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no test vectors: %v", err)
	}
	out := map[string]vectors{}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		in, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		var v vectors
		if err := json.NewDecoder(in).Decode(&v); err != nil {
			t.Fatal(path, err)
		}
		out[filepath.Base(path)] = v
	}
	return out
}

func same(t *testing.T, what string, got encoding.BinaryMarshaler, want []byte) {
	t.Helper()
	b, err := got.MarshalBinary()
	if err != nil || !bytes.Equal(b, want) {
		t.Errorf("%s differs from the draft's (%v)", what, err)
	}
}

// TestVectors: sharing, preparing, aggregating and their messages are as in the draft.
func TestVectors(t *testing.T) {
	for name, v := range readVectors(t) {
		s, err := sumvec.New(v.Shares, v.Length, v.Bits, v.Chunk, v.Context)
		if err != nil {
			t.Fatal(err)
		}
		sums := make([]sumvec.AggShare, v.Shares)
		for i := range sums {
			sums[i] = s.AggregateInit()
		}
		for k, p := range v.Prep {
			public, inputs, err := s.Shard(p.Measurement, (*sumvec.Nonce)(p.Nonce), p.Random)
			if err != nil || !bytes.Equal(public, p.Public) {
				t.Fatalf("%s: report %d: %v", name, k, err)
			}
			var states []*sumvec.PrepState
			var records []sumvec.PrepShare
			for i := range inputs {
				same(t, "an input share", &inputs[i], p.Inputs[i])
				state, record, err := s.PrepInit((*sumvec.VerifyKey)(v.Key), (*sumvec.Nonce)(p.Nonce), uint8(i), public,
					inputs[i])
				if err != nil {
					t.Fatal(err)
				}
				same(t, "a preparation share", record, p.Records[0][i])
				states, records = append(states, state), append(records, *record)
			}
			message, err := s.PrepSharesToPrep(records)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the preparation message", message, p.Messages[0])
			for i, state := range states {
				out, err := s.PrepNext(state, message)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "an output share", out, slices.Concat(toBytes(p.Outs[i])...))
				s.AggregateUpdate(&sums[i], out)
			}
		}
		if got, err := s.Unshard(sums, uint(len(v.Prep))); err != nil || !slices.Equal(*got, v.Result) {
			t.Errorf("%s: the sum is %v (%v), want %v", name, got, err, v.Result)
		}
	}
}

func toBytes(in []hexBytes) [][]byte {
	out := make([][]byte, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

// prepared is the decision over the draft's first report of two parties, as a [Scheme] makes it, after something was
// changed.
func prepared(t *testing.T, v vectors, change func(s *Scheme, shares *[2][]byte, nonces *[2][16]byte, keys *[2][32]byte,
	parties *[2]int)) bool {
	t.Helper()
	s, err := newScheme(int(v.Length), int(v.Bits), int(v.Chunk), v.Context)
	if err != nil {
		t.Fatal(err)
	}
	p := v.Prep[0]
	parts := [2][]byte{slices.Concat(p.Inputs[0], p.Public), slices.Concat(p.Inputs[1], p.Public)}
	nonces := [2][16]byte{[16]byte(p.Nonce), [16]byte(p.Nonce)}
	keys := [2][32]byte{[32]byte(v.Key), [32]byte(v.Key)}
	parties := [2]int{Leader, Helper}
	if change != nil {
		change(s, &parts, &nonces, &keys, &parties)
	}
	var records [2][]byte
	for i := range records {
		if records[i], _, err = s.Check(keys[i], nonces[i], parties[i], parts[i]); err != nil {
			records[i] = s.Damaged()
		}
	}
	return s.Holds(records[0], records[1])
}

// TestTamperedVectors: the draft's reports are refused after any change: of a share of values or proof, the public
// part, the nonce, the verification key, the party's number or the context.
func TestTamperedVectors(t *testing.T) {
	v := readVectors(t)["Prio3SumVec_0.json.gz"]
	if v.Shares != 2 {
		t.Fatalf("vectors of %d parties, want 2", v.Shares)
	}
	if !prepared(t, v, nil) {
		t.Fatal("the draft's report is refused")
	}
	type change = func(s *Scheme, shares *[2][]byte, nonces *[2][16]byte, keys *[2][32]byte, parties *[2]int)
	changes := map[string]change{
		"nonce of one": func(_ *Scheme, _ *[2][]byte, n *[2][16]byte, _ *[2][32]byte, _ *[2]int) { n[0][3] ^= 1 },
		"nonce of both": func(_ *Scheme, _ *[2][]byte, n *[2][16]byte, _ *[2][32]byte, _ *[2]int) {
			n[0][3], n[1][3] = n[0][3]^1, n[1][3]^1
		},
		"key of one": func(_ *Scheme, _ *[2][]byte, _ *[2][16]byte, k *[2][32]byte, _ *[2]int) { k[1][5] ^= 1 },
		"helper as leader": func(_ *Scheme, s *[2][]byte, _ *[2][16]byte, _ *[2][32]byte, p *[2]int) {
			p[1], s[1] = Leader, s[0]
		},
		"leader as helper": func(_ *Scheme, s *[2][]byte, _ *[2][16]byte, _ *[2][32]byte, p *[2]int) {
			p[0], s[0] = Helper, s[1]
		},
		"a party that is not there": func(_ *Scheme, _ *[2][]byte, _ *[2][16]byte, _ *[2][32]byte,
			p *[2]int) {
			p[1] = 2
		},
		"another context": func(s *Scheme, _ *[2][]byte, _ *[2][16]byte, _ *[2][32]byte, _ *[2]int) {
			s.context = []byte("another")
		},
		"fewer bits": func(s *Scheme, _ *[2][]byte, _ *[2][16]byte, _ *[2][32]byte, _ *[2]int) {
			fewer, err := newScheme(s.values, s.bits-1, s.chunk, s.context)
			if err != nil {
				t.Fatal(err)
			}
			*s = *fewer
		},
	}
	// Every element and seed of either share.
	for party := range 2 {
		for at := 0; at < len(v.Prep[0].Inputs[party])+len(v.Prep[0].Public); at += elementBytes {
			changes[fmt.Sprintf("byte %d of share %d", at, party)] = func(_ *Scheme, s *[2][]byte, _ *[2][16]byte,
				_ *[2][32]byte,
				_ *[2]int) {
				s[party][at] ^= 1
			}
		}
		changes[fmt.Sprintf("share %d cut", party)] = func(_ *Scheme, s *[2][]byte, _ *[2][16]byte, _ *[2][32]byte,
			_ *[2]int) {
			s[party] = s[party][1:]
		}
	}
	for name, c := range changes {
		if prepared(t, v, c) {
			t.Errorf("%s: the report is taken", name)
		}
	}
	// The key of both is theirs to choose.
	if !prepared(t, v, func(_ *Scheme, _ *[2][]byte, _ *[2][16]byte, k *[2][32]byte, _ *[2]int) {
		k[0][5], k[1][5] = k[0][5]^1, k[1][5]^1
	}) {
		t.Error("another key of both refuses an honest report")
	}
}

func scheme(t testing.TB, values, bits int) *Scheme {
	t.Helper()
	s, err := New(values, bits, []byte("test"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSum: vectors to the ends of the range, with whole numbers added on either side, add up exactly.
func TestSum(t *testing.T) {
	r := rng.New(1, t.Name())
	for _, c := range []struct{ values, bits int }{{1, 1}, {3, 2}, {7, 31}, {20, 40}} {
		s := scheme(t, c.values, c.bits)
		want := make([]int64, c.values)
		sums := [2]Vector{s.Zero(), s.Zero()}
		const reports = 5
		for k := range reports {
			v := make([]int64, c.values)
			for i := range v {
				switch k {
				case 0:
					v[i] = -s.offset()
				case 1:
					v[i] = s.offset() + 1
				default:
					v[i] = r.Int64N(2*s.offset()+2) - s.offset()
				}
				want[i] += v[i]
			}
			nonce := [16]byte{byte(k)}
			leader, helper, err := s.Split(nonce, v)
			if err != nil {
				t.Fatal(err)
			}
			var records [2][]byte
			for party, share := range [][]byte{leader, helper} {
				record, own, err := s.Check([32]byte{9}, nonce, party, share)
				if err != nil || len(record) != s.RecordBytes() || len(share) != s.ShareBytes(party) {
					t.Fatalf("%d bytes of %d, %v", len(record), len(share), err)
				}
				again, _, err := s.Check([32]byte{9}, nonce, party, share)
				if err != nil || !bytes.Equal(again, record) {
					t.Error("the same share gives another record")
				}
				records[party] = record
				sums[party].AddAssign(own)
			}
			if !s.Holds(records[0], records[1]) {
				t.Errorf("%+v: report %d is refused", c, k)
			}
			if s.Holds(records[1], records[0]) || s.Holds(s.Damaged(), s.Damaged()) ||
				s.Holds(records[0], s.Damaged()) || s.Holds(records[0], records[1][1:]) {
				t.Errorf("%+v: records of something else hold", c)
			}
		}
		for i := range want {
			for party := range sums {
				noise := r.Int64N(1<<40) - 1<<39
				Add(&sums[party][i], noise)
				want[i] += noise
			}
			words, err := Words(sums[0])
			if err != nil {
				t.Fatal(err)
			}
			if sums[0], err = FromWords(words); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Sum(sums[0], sums[1], reports); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: the sum is %v (%v), want %v", c, got, err, want)
		}
		Add(&sums[0][0], math.MaxInt64)
		if _, err := s.Sum(sums[0], sums[1], reports); !errors.Is(err, ErrOutOfRange) {
			t.Errorf("a sum that cannot be: %v", err)
		}
	}
}

// TestRange: a value beyond the range has no shares, and schemes beyond the limits are refused.
func TestRange(t *testing.T) {
	s := scheme(t, 2, 4)
	for _, v := range [][]int64{{9, 0}, {0, -8}, {math.MaxInt64, 0}, {0, math.MinInt64}, {1}, {1, 2, 3}} {
		if _, _, err := s.Split([16]byte{}, v); err == nil {
			t.Errorf("%v is shared", v)
		}
	}
	for _, c := range [][2]int{{0, 1}, {1, 0}, {1, maxBits + 1}, {maxElements, 2}, {-1, 1}} {
		if _, err := New(c[0], c[1], nil); err == nil {
			t.Errorf("%d values of %d bits are taken", c[0], c[1])
		}
	}
}

// TestTwoPublicParts: a client that sends the parties different public parts is refused by the records of both.
func TestTwoPublicParts(t *testing.T) {
	s := scheme(t, 3, 8)
	nonce := [16]byte{1}
	leader, helper, err := s.Split(nonce, []int64{1, -2, 3})
	if err != nil {
		t.Fatal(err)
	}
	helper[2*seedBytes] ^= 1 // the leader's part, as the helper is told it
	var records [2][]byte
	for party, share := range [][]byte{leader, helper} {
		if records[party], _, err = s.Check([32]byte{}, nonce, party, share); err != nil {
			t.Fatalf("party %d finds it out alone: %v", party, err)
		}
	}
	if s.Holds(records[0], records[1]) {
		t.Error("the report is taken")
	}
}

// TestShareAloneIsUniform: the shares of smallest and largest values are uniform by χ². The field is smaller than 2^128
// by parts in 2^59, which nobody sees.
func TestShareAloneIsUniform(t *testing.T) {
	s := scheme(t, 64, 8)
	for _, value := range []int64{-127, 0, 128} {
		var counts [2][256]float64
		var total [2]float64
		for k := range 40 {
			leader, helper, err := s.Split([16]byte{byte(k)}, slices.Repeat([]int64{value}, 64))
			if err != nil {
				t.Fatal(err)
			}
			for party, share := range [][]byte{leader, helper} {
				for _, b := range share {
					counts[party][b]++
					total[party]++
				}
			}
		}
		for party := range counts {
			chi, expected := 0.0, total[party]/256
			for _, n := range counts[party] {
				chi += (n - expected) * (n - expected) / expected
			}
			if math.Abs(chi-255) > 6*math.Sqrt(2*255) {
				t.Errorf("value %d: share %d has χ² = %.0f with 255 degrees of freedom", value, party, chi)
			}
		}
	}
}

// TestRecordsTellNothing: what both parties see of a report, the sums of their records, is uniform by χ² for smallest and
// largest values, but for the two elements that the others decide and the seeds.
func TestRecordsTellNothing(t *testing.T) {
	s := scheme(t, 64, 8)
	for _, value := range []int64{-127, 0, 128} {
		var counts [256]float64
		total := 0.0
		for range 60 {
			nonce := [16]byte{1} // so that all are checked at one place
			leader, helper, err := s.Split(nonce, slices.Repeat([]int64{value}, 64))
			if err != nil {
				t.Fatal(err)
			}
			sum := make(Vector, (s.RecordBytes()-2*seedBytes)/elementBytes)
			for party, share := range [][]byte{leader, helper} {
				record, _, err := s.Check([32]byte{9}, nonce, party, share)
				own := make(Vector, len(sum))
				if err = errors.Join(err, own.UnmarshalBinary(record[:len(record)-2*seedBytes])); err != nil {
					t.Fatal(err)
				}
				sum.AddAssign(own)
			}
			if !sum[0].IsZero() {
				t.Fatal("an honest report's circuit is not zero")
			}
			for _, b := range plain(t, sum[1:len(sum)-1]) {
				counts[b]++
				total++
			}
		}
		chi, expected := 0.0, total/256
		for _, n := range counts {
			chi += (n - expected) * (n - expected) / expected
		}
		if math.Abs(chi-255) > 6*math.Sqrt(2*255) {
			t.Errorf("value %d: χ² = %.0f with 255 degrees of freedom", value, chi)
		}
	}
}

// FuzzShare: no share but the client's own holds.
func FuzzShare(f *testing.F) {
	s := scheme(f, 2, 3)
	leader, helper, err := s.Split([16]byte{1}, []int64{-1, 2})
	if err != nil {
		f.Fatal(err)
	}
	other, _, err := s.Check([32]byte{}, [16]byte{1}, Helper, helper)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(leader)
	f.Add(leader[:len(leader)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		record, _, err := s.Check([32]byte{}, [16]byte{1}, Leader, b)
		if err == nil && s.Holds(record, other) != bytes.Equal(b, leader) {
			t.Errorf("%x: holds is %v", b, !bytes.Equal(b, leader))
		}
	})
}

// FuzzRecord: no record but the other party's holds.
func FuzzRecord(f *testing.F) {
	s := scheme(f, 2, 3)
	leader, helper, err := s.Split([16]byte{1}, []int64{-1, 2})
	if err != nil {
		f.Fatal(err)
	}
	var records [2][]byte
	for party, share := range [][]byte{leader, helper} {
		if records[party], _, err = s.Check([32]byte{}, [16]byte{1}, party, share); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(records[Helper])
	f.Add(s.Damaged())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if s.Holds(records[Leader], b) != bytes.Equal(b, records[Helper]) {
			t.Errorf("%x: holds is %v", b, !bytes.Equal(b, records[Helper]))
		}
	})
}

// FuzzWords: words are the elements that they say, or an error.
func FuzzWords(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(0))
	f.Fuzz(func(t *testing.T, a, b, c uint64) {
		for _, words := range [][]uint64{{a, b}, {a, b, c}, {a, b, c, a}} {
			v, err := FromWords(words)
			if err != nil {
				continue
			}
			if again, err := Words(v); err != nil || !slices.Equal(again, words) {
				t.Errorf("%x is written as %x (%v)", words, again, err)
			}
		}
	})
}

// BenchmarkProof measures what a client does for a report with a proof, and what a party does to check it: at 31 bits,
// as a noise multiplier of 1 to 2 asks for.
func BenchmarkProof(b *testing.B) {
	for _, values := range []int{384, 1408, 18000} {
		s := scheme(b, values, 31)
		v := make([]int64, values)
		leader, helper, err := s.Split([16]byte{}, v)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("split/d=%d", values), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := s.Split([16]byte{}, v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(leader)+len(helper)), "bytes/report")
		})
		var records [2][]byte
		for party, share := range [][]byte{leader, helper} {
			b.Run(fmt.Sprintf("check/%d/d=%d", party, values), func(b *testing.B) {
				for b.Loop() {
					if records[party], _, err = s.Check([32]byte{}, [16]byte{}, party, share); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(s.RecordBytes()), "bytes/record")
			})
		}
		b.Run(fmt.Sprintf("decide/d=%d", values), func(b *testing.B) {
			for b.Loop() {
				if !s.Holds(records[0], records[1]) {
					b.Fatal("an honest report is refused")
				}
			}
		})
	}
}
