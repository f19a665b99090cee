package tensor

// #include "torch.h"
// static char tanh_name[] = "tanh";
// static char none_name[] = "none";
// static void gelu_tanh(tensor *out, tensor x) { atg_gelu(out, x, tanh_name, 4); }
// static void gelu_erf(tensor *out, tensor x) { atg_gelu(out, x, none_name, 4); }
import "C"

// Abs applies it element by element.
func (s *Scope) Abs(a Tensor) Tensor {
	var out C.tensor
	C.atg_abs(&out, a.c)
	return s.own("Abs", out, a)
}

// Neg applies it element by element.
func (s *Scope) Neg(a Tensor) Tensor {
	var out C.tensor
	C.atg_neg(&out, a.c)
	return s.own("Neg", out, a)
}

// Exp applies it element by element.
func (s *Scope) Exp(a Tensor) Tensor {
	var out C.tensor
	C.atg_exp(&out, a.c)
	return s.own("Exp", out, a)
}

// Log applies it element by element.
func (s *Scope) Log(a Tensor) Tensor {
	var out C.tensor
	C.atg_log(&out, a.c)
	return s.own("Log", out, a)
}

// Cos applies it element by element.
func (s *Scope) Cos(a Tensor) Tensor {
	var out C.tensor
	C.atg_cos(&out, a.c)
	return s.own("Cos", out, a)
}

// Sin applies it element by element.
func (s *Scope) Sin(a Tensor) Tensor {
	var out C.tensor
	C.atg_sin(&out, a.c)
	return s.own("Sin", out, a)
}

// Rsqrt applies it element by element.
func (s *Scope) Rsqrt(a Tensor) Tensor {
	var out C.tensor
	C.atg_rsqrt(&out, a.c)
	return s.own("Rsqrt", out, a)
}

// Square applies it element by element.
func (s *Scope) Square(a Tensor) Tensor {
	var out C.tensor
	C.atg_square(&out, a.c)
	return s.own("Square", out, a)
}

// Tanh applies it element by element.
func (s *Scope) Tanh(a Tensor) Tensor {
	var out C.tensor
	C.atg_tanh(&out, a.c)
	return s.own("Tanh", out, a)
}

// Silu applies it element by element.
func (s *Scope) Silu(a Tensor) Tensor {
	var out C.tensor
	C.atg_silu(&out, a.c)
	return s.own("Silu", out, a)
}

// Add is element by element, with broadcasting.
func (s *Scope) Add(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_add(&out, a.c, b.c)
	return s.own("Add", out, a, b)
}

// Sub is element by element, with broadcasting.
func (s *Scope) Sub(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_sub(&out, a.c, b.c)
	return s.own("Sub", out, a, b)
}

// Mul is element by element, with broadcasting.
func (s *Scope) Mul(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_mul(&out, a.c, b.c)
	return s.own("Mul", out, a, b)
}

// Div is element by element, with broadcasting.
func (s *Scope) Div(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_div(&out, a.c, b.c)
	return s.own("Div", out, a, b)
}

// Sqrt is the square root of every element.
func (s *Scope) Sqrt(a Tensor) Tensor {
	var out C.tensor
	C.atg_sqrt(&out, a.c)
	return s.own("Sqrt", out, a)
}

// AddScalar adds k to every element.
func (s *Scope) AddScalar(a Tensor, k float64) Tensor {
	var out C.tensor
	v := C.ats_float(C.double(k))
	C.atg_add_scalar(&out, a.c, v)
	C.ats_free(v)
	return s.own("AddScalar", out, a)
}

// MulScalar multiplies every element by k.
func (s *Scope) MulScalar(a Tensor, k float64) Tensor {
	var out C.tensor
	v := C.ats_float(C.double(k))
	C.atg_mul_scalar(&out, a.c, v)
	C.ats_free(v)
	return s.own("MulScalar", out, a)
}

// Relu is the positive part.
func (s *Scope) Relu(a Tensor) Tensor {
	var out C.tensor
	C.atg_relu(&out, a.c)
	return s.own("Relu", out, a)
}

// GeluTanh is GELU with the tanh approximation (GPT-2's gelu_new).
func (s *Scope) GeluTanh(a Tensor) Tensor {
	var out C.tensor
	C.gelu_tanh(&out, a.c)
	return s.own("GeluTanh", out, a)
}

// Gelu is the exact GELU, with the error function.
func (s *Scope) Gelu(a Tensor) Tensor {
	var out C.tensor
	C.gelu_erf(&out, a.c)
	return s.own("Gelu", out, a)
}

// Where takes from a where cond is true and from b elsewhere.
func (s *Scope) Where(cond, a, b Tensor) Tensor {
	var out C.tensor
	C.atg_where_self(&out, cond.c, a.c, b.c)
	return s.own("Where", out, cond, a, b)
}

// Tril keeps the elements on and below the given diagonal.
func (s *Scope) Tril(a Tensor, diagonal int) Tensor {
	var out C.tensor
	C.atg_tril(&out, a.c, C.int64_t(diagonal))
	return s.own("Tril", out, a)
}

// To converts to another type; it returns the same tensor if the type is equal.
func (s *Scope) To(a Tensor, d DType) Tensor {
	if a.DType() == d {
		return a
	}
	var out C.tensor
	C.atg_to_dtype(&out, a.c, C.int(d), 0, 0)
	return s.own("To", out, a)
}
