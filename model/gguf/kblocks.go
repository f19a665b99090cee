package gguf

// A block of 256 values ("K-quants") is parted into groups of 16 or 32, each with a small integer scale, and some with
// a minimum, of which the block's half-precision d and dmin are the units.

// q2k: 16 bytes scale (low four bits) and minimum of groups of 16, 64 bytes of two bits, d, dmin;
// d·scale·q - dmin·minimum. Each run of 32 bytes holds 128 values, the first 32 in the lowest two bits.
func q2k(dst []float32, b []byte) {
	scales, qs := b[:16], b[16:80]
	d, dmin := half(b[80:]), half(b[82:])
	for group, s := range scales {
		scale, minimum := float32(d*float32(s&15)), float32(dmin*float32(s>>4))
		run, shift := group/8*32+group%2*16, group%8/2*2
		for i, q := range qs[run : run+16] {
			dst[group*16+i] = float32(scale*float32(q>>shift&3)) - minimum
		}
	}
}

// q3k: 32 bytes of third bits (bit j for values 32j…32j+31), 64 bytes of two bits as in q2k, 12 bytes of 16 six-bit
// scales, d; d·(scale-32)·(q-4), where a third bit that is set counts 4.
func q3k(dst []float32, b []byte) {
	high, qs, packed, d := b[:32], b[32:96], b[96:108], half(b[108:])
	for group := range 16 {
		// The low four bits of scale g are a nibble of byte g%8, the high two a pair of bits of byte 8+g%4.
		scale := packed[group%8]>>(group/8*4)&15 | packed[8+group%4]>>(group/4*2)&3<<4
		step := d * float32(int(scale)-32)
		run, shift := group/8*32+group%2*16, group%8/2*2
		for i := range 16 {
			q := int(qs[run+i] >> shift & 3)
			if high[group%2*16+i]>>(group/2)&1 == 0 {
				q -= 4
			}
			dst[group*16+i] = step * float32(q)
		}
	}
}

// scaleMin unpacks six-bit scale and minimum of group g of 8 from 12 bytes: groups 0 to 3 are in the low six bits of
// bytes 0 to 3 and 4 to 7; of groups 4 to 7, the low four bits in bytes 8 to 11 and the high two above the others.
func scaleMin(p []byte, g int) (scale, minimum byte) {
	if g < 4 {
		return p[g] & 63, p[g+4] & 63
	}
	return p[g+4]&15 | p[g-4]>>6<<4, p[g+4]>>4 | p[g]>>6<<4
}

// q4k: d, dmin, 12 bytes of scales and minima of groups of 32, 128 bytes of nibbles; d·scale·q - dmin·minimum. Each run
// of 32 bytes holds two groups, the first one in the low nibbles.
func q4k(dst []float32, b []byte) {
	d, dmin, packed, qs := half(b), half(b[2:]), b[4:16], b[16:144]
	for group := range 8 {
		s, m := scaleMin(packed, group)
		scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
		run, shift := group/2*32, group%2*4
		for i, q := range qs[run : run+32] {
			dst[group*32+i] = float32(scale*float32(q>>shift&15)) - minimum
		}
	}
}

// q5k is q4k with 32 bytes of fifth bits (bit g for group g) before the nibbles.
func q5k(dst []float32, b []byte) {
	d, dmin, packed, high, qs := half(b), half(b[2:]), b[4:16], b[16:48], b[48:176]
	for group := range 8 {
		s, m := scaleMin(packed, group)
		scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
		run, shift := group/2*32, group%2*4
		for i, q := range qs[run : run+32] {
			q = q>>shift&15 | high[i]>>group&1<<4
			dst[group*32+i] = float32(scale*float32(q)) - minimum
		}
	}
}

// q6k: 128 bytes of low nibbles, 64 bytes of high pairs of bits, 16 signed scales of groups of 16, d; d·scale·(q-32).
// Each 128 values take 64 bytes of nibbles (low ones first) and 32 bytes of pairs.
func q6k(dst []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for i := range 256 {
		part, quarter, at := i/128, i%128/32, i%32
		nibble := low[part*64+quarter%2*32+at] >> (quarter / 2 * 4) & 15
		pair := high[part*32+at] >> (quarter * 2) & 3
		step := float32(d * float32(int8(scales[i/16])))
		dst[i] = step * float32(int(nibble|pair<<4)-32)
	}
}
