package tensor

// #include "torch.h"
// static char tanh_name[] = "tanh";
// static char none_name[] = "none";
// static void gelu_tanh(tensor *out, tensor x) { atg_gelu(out, x, tanh_name, 4); }
// static void gelu_erf(tensor *out, tensor x) { atg_gelu(out, x, none_name, 4); }
// typedef void (*unary)(tensor *, tensor);
// typedef void (*binary)(tensor *, tensor, tensor);
// static void call_unary(unary f, tensor *out, tensor x) { f(out, x); }
// static void call_binary(binary f, tensor *out, tensor x, tensor y) { f(out, x, y); }
import "C"

import "unsafe"

// unary is one of the C functions that make a tensor of one other.
func (s *Scope) unary(op string, f unsafe.Pointer, a Tensor) Tensor {
	return s.result(op, func(out *C.tensor) { C.call_unary(C.unary(f), out, a.c) }, a)
}

// binary is one of the C functions that make a tensor of two others.
func (s *Scope) binary(op string, f unsafe.Pointer, a, b Tensor) Tensor {
	return s.result(op, func(out *C.tensor) { C.call_binary(C.binary(f), out, a.c, b.c) }, a, b)
}

// Element by element.

func (s *Scope) Neg(a Tensor) Tensor    { return s.unary("Neg", C.atg_neg, a) }
func (s *Scope) exp(a Tensor) Tensor    { return s.unary("Exp", C.atg_exp, a) }
func (s *Scope) log(a Tensor) Tensor    { return s.unary("Log", C.atg_log, a) }
func (s *Scope) Cos(a Tensor) Tensor    { return s.unary("Cos", C.atg_cos, a) }
func (s *Scope) Sin(a Tensor) Tensor    { return s.unary("Sin", C.atg_sin, a) }
func (s *Scope) rsqrt(a Tensor) Tensor  { return s.unary("Rsqrt", C.atg_rsqrt, a) }
func (s *Scope) Square(a Tensor) Tensor { return s.unary("Square", C.atg_square, a) }
func (s *Scope) Tanh(a Tensor) Tensor   { return s.unary("Tanh", C.atg_tanh, a) }
func (s *Scope) silu(a Tensor) Tensor   { return s.unary("Silu", C.atg_silu, a) }

// Element by element, with broadcasting.

func (s *Scope) Add(a, b Tensor) Tensor { return s.binary("Add", C.atg_add, a, b) }
func (s *Scope) Sub(a, b Tensor) Tensor { return s.binary("Sub", C.atg_sub, a, b) }
func (s *Scope) Mul(a, b Tensor) Tensor { return s.binary("Mul", C.atg_mul, a, b) }
func (s *Scope) Div(a, b Tensor) Tensor { return s.binary("Div", C.atg_div, a, b) }

// Sqrt is the square root of every element.
func (s *Scope) Sqrt(a Tensor) Tensor { return s.unary("Sqrt", C.atg_sqrt, a) }

// AddScalar adds k to every element.
func (s *Scope) AddScalar(a Tensor, k float64) Tensor {
	v := C.ats_float(C.double(k))
	defer C.ats_free(v)
	return s.result("AddScalar", func(out *C.tensor) { C.atg_add_scalar(out, a.c, v) }, a)
}

// MulScalar multiplies every element by k.
func (s *Scope) MulScalar(a Tensor, k float64) Tensor {
	v := C.ats_float(C.double(k))
	defer C.ats_free(v)
	return s.result("MulScalar", func(out *C.tensor) { C.atg_mul_scalar(out, a.c, v) }, a)
}

// relu is the positive part.
func (s *Scope) relu(a Tensor) Tensor { return s.unary("Relu", C.atg_relu, a) }

// Capped is limit·tanh(a/limit): near a where that is small, and between ±limit everywhere.
func (s *Scope) Capped(a Tensor, limit float64) Tensor {
	return s.MulScalar(s.Tanh(s.MulScalar(a, 1/limit)), limit)
}

// portableGeluTanh is [Scope.geluTanh].
func (s *Scope) portableGeluTanh(a Tensor) Tensor {
	return s.result("GeluTanh", func(out *C.tensor) { C.gelu_tanh(out, a.c) }, a)
}

// gelu is the exact GELU, with the error function.
func (s *Scope) gelu(a Tensor) Tensor {
	return s.result("Gelu", func(out *C.tensor) { C.gelu_erf(out, a.c) }, a)
}

// Where takes from a where cond is true and from b elsewhere.
func (s *Scope) Where(cond, a, b Tensor) Tensor {
	return s.result("Where", func(out *C.tensor) { C.atg_where_self(out, cond.c, a.c, b.c) }, cond, a, b)
}

// Tril keeps the elements on and below the given diagonal.
func (s *Scope) Tril(a Tensor, diagonal int) Tensor {
	return s.result("Tril", func(out *C.tensor) { C.atg_tril(out, a.c, C.int64_t(diagonal)) }, a)
}

// To converts to another type; it returns the same tensor if the type is equal.
func (s *Scope) To(a Tensor, d DType) Tensor {
	if a.DType() == d {
		return a
	}
	return s.result("To", func(out *C.tensor) { C.atg_to_dtype(out, a.c, C.int(d), 0, 0) }, a)
}
