package rangeproof

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"testing"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"
)

// turboSHAKE128 is the stream of RFC 9861 with the domain byte 1: n bytes of it.
func turboSHAKE128(in []byte, n int) []byte {
	const rate = 168
	in = append(slices.Clone(in), 1)
	in = append(in, make([]byte, (rate-len(in)%rate)%rate)...)
	in[len(in)-1] ^= 0x80
	var s [25]uint64
	for ; len(in) > 0; in = in[rate:] {
		for i := range rate / 8 {
			s[i] ^= binary.LittleEndian.Uint64(in[8*i:])
		}
		keccak(&s)
	}
	var out []byte
	for ; len(out) < n; keccak(&s) {
		for i := range rate / 8 {
			out = binary.LittleEndian.AppendUint64(out, s[i])
		}
	}
	return out[:n]
}

// keccak is Keccak-p[1600] of twelve rounds.
func keccak(s *[25]uint64) {
	for _, constant := range []uint64{0x8000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
		0x8000000000008002, 0x8000000000000080, 0x800a, 0x800000008000000a, 0x8000000080008081, 0x8000000000008080,
		0x80000001, 0x8000000080008008} {
		var c [5]uint64
		for i, v := range s {
			c[i%5] ^= v
		}
		for i := range s {
			s[i] ^= c[(i+4)%5] ^ bits.RotateLeft64(c[(i+1)%5], 1)
		}
		moved, at := s[1], 1
		for t := range 24 {
			at = at/5 + 5*((2*(at%5)+3*(at/5))%5)
			s[at], moved = bits.RotateLeft64(moved, (t+1)*(t+2)/2), s[at]
		}
		for y := 0; y < 25; y += 5 {
			row := [5]uint64(s[y : y+5])
			for x := range row {
				s[y+x] = row[x] ^ ^row[(x+1)%5]&row[(x+2)%5]
			}
		}
		s[0] ^= constant
	}
}

// forger is a client with a prover of its own, written after the draft. It proves whatever it likes.
type forger struct {
	*Scheme
	nonce [16]byte
	bits  Vector // which need be no bits
	// balance makes the circuit's output zero by the proof alone; key is the one that the client takes for the check's.
	balance bool
	key     *[32]byte
	// stale takes the joint randomness of zeros, and torn sends the parties different public parts.
	stale, torn bool
}

// stream is the draft's XofTurboShake128.
func (f *forger) stream(usage uint16, seed, binder []byte, n int) []byte {
	dst := slices.Concat([]byte{12, 0, 0, 0, 0, 3, byte(usage >> 8), byte(usage)}, f.context)
	head := binary.LittleEndian.AppendUint16(nil, uint16(len(dst)))
	return turboSHAKE128(slices.Concat(head, dst, []byte{seedBytes}, seed, binder), n)
}

func (f *forger) elements(t *testing.T, usage uint16, seed, binder []byte, n int) Vector {
	t.Helper()
	v := make(Vector, n)
	if err := v.UnmarshalBinary(f.stream(usage, seed, binder, elementBytes*n)); err != nil {
		t.Fatal(err) // one in 2^50
	}
	return v
}

func plain(t *testing.T, v Vector) []byte {
	t.Helper()
	b, err := v.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shares are what the client sends to both, by random bytes as circl takes them.
func (f *forger) shares(t *testing.T, random []byte) (out [shares][]byte) {
	t.Helper()
	seed := func(i int) []byte { return random[seedBytes*i : seedBytes*(i+1)] }
	blinds := [shares][]byte{seed(2), seed(1)}
	values := [shares]Vector{slices.Clone(f.bits), f.elements(t, 1, seed(0), []byte{Helper}, len(f.bits))}
	values[Leader].SubAssign(values[Helper])
	var parts [shares][]byte
	for p, v := range values {
		if f.stale {
			v = slices.Clone(v)
			v.SubAssign(f.bits)
		}
		parts[p] = f.stream(7, blinds[p], slices.Concat([]byte{byte(p)}, f.nonce[:], plain(t, v)), seedBytes)
	}
	calls := (len(f.bits) + f.chunk - 1) / f.chunk
	p, log := 1, uint(0)
	for ; p < 1+calls; p, log = 2*p, log+1 {
	}
	wires := make([]Vector, 2*f.chunk)
	for w, first := range f.elements(t, 4, seed(3), []byte{1}, len(wires)) {
		wires[w] = make(Vector, p)
		wires[w][0] = first
	}
	var public [shares][]byte
	var half fp128.Fp
	half.InvUint64(shares)
	for party, v := range values { // as each of them will see it
		told := parts
		if f.torn {
			told[1-party] = bytes.Repeat([]byte{7}, seedBytes)
		}
		public[party] = slices.Concat(told[:]...)
		joint := f.elements(t, 3, f.stream(6, make([]byte, seedBytes), public[party], seedBytes), []byte{1}, calls)
		for i, r := range joint {
			power := r
			for j := range f.chunk {
				var x, e fp128.Fp
				if at := i*f.chunk + j; at < len(v) {
					x = v[at]
				}
				e.Mul(&power, &x)
				wires[2*j][i+1].AddAssign(&e)
				x.SubAssign(&half)
				wires[2*j+1][i+1].AddAssign(&x)
				power.MulAssign(&r)
			}
		}
	}
	var scale fp128.Fp
	scale.InvTwoN(log)
	proof, poly := make(Vector, len(wires)), make(fp128.Poly, 2*p-1)
	for w, wire := range wires {
		proof[w] = wire[0]
		coefficients := make(Vector, p)
		coefficients.InvNTT(wire, uint(p))
		coefficients.ScalarMul(&scale)
		wires[w] = coefficients
	}
	for w := 0; w < len(wires); w += 2 {
		product := make(fp128.Poly, len(poly))
		product.Mul(fp128.Poly(wires[w]), fp128.Poly(wires[w+1]))
		poly.AddAssign(product)
	}
	if f.balance {
		f.cancel(t, poly, calls, log)
	}
	proof = append(proof, poly...)
	own := f.elements(t, 2, seed(0), []byte{1, Helper}, len(proof))
	proof.SubAssign(own)
	out[Leader] = slices.Concat(plain(t, values[Leader]), plain(t, proof), blinds[Leader], public[Leader])
	out[Helper] = slices.Concat(seed(0), blinds[Helper], public[Helper])
	return out
}

// cancel adds c·(x − z) to the gadget's polynomial, so that the circuit's output is zero. Where z is the place at which
// the polynomial is checked, nobody sees it.
func (f *forger) cancel(t *testing.T, poly fp128.Poly, calls int, log uint) {
	var z, root, at, output, change, c fp128.Fp
	if f.key != nil {
		z = f.elements(t, 5, f.key[:], append([]byte{1}, f.nonce[:]...), 1)[0]
	}
	root.SetRootOfUnityTwoN(log)
	at.SetOne()
	for range calls {
		at.MulAssign(&root)
		e := poly.Evaluate(&at)
		output.AddAssign(&e)
		e.Sub(&at, &z)
		change.AddAssign(&e)
	}
	c.Inv(&change)
	c.MulAssign(&output)
	poly[1].SubAssign(&c)
	c.MulAssign(&z)
	poly[0].AddAssign(&c)
}

// taken is the decision of two parties who check under a key.
func (f *forger) taken(t *testing.T, key [32]byte, parts [shares][]byte) bool {
	t.Helper()
	var records [shares][]byte
	for party, share := range parts {
		var err error
		if records[party], _, err = f.Check(key, f.nonce, party, share); err != nil {
			records[party] = f.Damaged()
		}
	}
	return f.Holds(records[Leader], records[Helper])
}

// TestOwnProver: a client that proves by a program of its own, whose honest reports are circl's, has no vector beyond the
// range taken. One that knew the key of the check would: the key is a secret until the deadline.
func TestOwnProver(t *testing.T) {
	key, guess := [32]byte{9}, [32]byte{8}
	for _, size := range [][2]int{{1, 1}, {3, 4}, {20, 31}} {
		s := scheme(t, size[0], size[1])
		var random []byte
		for i := range 2 * shares {
			sum := sha256.Sum256([]byte{byte(i)})
			random = append(random, sum[:]...)
		}
		honest := forger{Scheme: s, nonce: [16]byte{3}, bits: make(Vector, size[0]*size[1])}
		honest.bits[0].SetOne()
		vec, err := s.vec()
		if err != nil {
			t.Fatal(err)
		}
		measured := make([]uint64, size[0])
		measured[0] = 1
		public, inputs, err := vec.Shard(measured, (*sumvec.Nonce)(&honest.nonce), random)
		if err != nil {
			t.Fatal(err)
		}
		made := honest.shares(t, random)
		for party := range inputs {
			if want, err := inputs[party].MarshalBinary(); err != nil || !bytes.Equal(made[party], append(want, public...)) {
				t.Fatalf("%v: the share of party %d differs from circl's (%v)", size, party, err)
			}
		}
		if !honest.taken(t, key, made) {
			t.Fatalf("%v: an honest report is refused", size)
		}
		var two, huge fp128.Fp
		Add(&two, 2)
		Add(&huge, 1<<62)
		huge.MulAssign(&huge)
		minus := fp128.Fp{}
		Add(&minus, -1)
		for name, bad := range map[string]fp128.Fp{"two": two, "minus one": minus, "2^124": huge} {
			f := honest
			f.bits = slices.Clone(f.bits)
			f.bits[len(f.bits)-1] = bad
			for cheat, change := range map[string]func(f *forger){
				"a proof by the rules": func(*forger) {},
				"an output of zero":    func(f *forger) { f.balance = true },
				"a guess of the key":   func(f *forger) { f.balance, f.key = true, &guess },
				"stale randomness":     func(f *forger) { f.balance, f.key, f.stale = true, &key, true },
				"two public parts":     func(f *forger) { f.balance, f.key, f.torn = true, &key, true },
			} {
				f := f
				change(&f)
				if f.taken(t, key, f.shares(t, random)) {
					t.Errorf("%v: a bit of %s is taken by %s", size, name, cheat)
				}
			}
			f.balance, f.key = true, &key
			if !f.taken(t, key, f.shares(t, random)) {
				t.Errorf("%v: the forger is too weak: it knows the key, and its bit of %s is refused", size, name)
			}
		}
	}
}
