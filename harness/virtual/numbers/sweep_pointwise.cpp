#include "harness/virtual/numbers/sweep.h"

namespace tidemark::numbers {
// A function of one tensor in its three forms: new tensor, in place, into a given one.
#define UNARY_WITH(f, input, in_place)                                                 \
  add(cases, #f, {input}, [](const Tensors& t) -> Tensors { return {at::f(t[0])}; });  \
  add(cases, #f "_", {input}, [](const Tensors& t) -> Tensors { return {in_place}; }); \
  add(                                                                                 \
      cases, #f ".out", {input, at::empty({0}, at::f(input).options())},               \
      [](const Tensors& t) -> Tensors {                                                \
        return {at::f##_out(const_cast<at::Tensor&>(t[1]), t[0])};                     \
      },                                                                               \
      true, false)
#define UNARY(f, input) UNARY_WITH(f, input, t[0].f##_())
#define UNARY_FREE(f, input) UNARY_WITH(f, input, at::f##_(const_cast<at::Tensor&>(t[0])))
#define FUNCTION(f, input) \
  add(cases, #f, {input}, [](const Tensors& t) -> Tensors { return {at::f(t[0])}; })
#define BINARY(f, a, b)                                                                      \
  add(cases, #f, {a, b}, [](const Tensors& t) -> Tensors { return {at::f(t[0], t[1])}; });   \
  add(cases, #f "_", {a, b}, [](const Tensors& t) -> Tensors { return {t[0].f##_(t[1])}; }); \
  add(                                                                                       \
      cases, #f ".out", {a, b, at::empty({0}, at::f(a, b).options())},                       \
      [](const Tensors& t) -> Tensors {                                                      \
        return {at::f##_out(const_cast<at::Tensor&>(t[2]), t[0], t[1])};                     \
      },                                                                                     \
      true, false)
#define COMPARE(f)                                                                                \
  add(cases, #f, {x, y}, [](const Tensors& t) -> Tensors { return {at::f(t[0], t[1])}; });        \
  add(cases, #f ".Scalar", {x}, [](const Tensors& t) -> Tensors { return {at::f(t[0], 0.25)}; }); \
  add(cases, #f "_", {x, y}, [](const Tensors& t) -> Tensors { return {t[0].f##_(t[1])}; })

std::vector<Case> pointwise_cases() {
  std::vector<Case> cases;
  const at::Tensor x = normal({3, 5}), y = normal({3, 5}), u = unit({3, 5}), v = unit({3, 5});
  const at::Tensor i = below(50, {3, 5}), j = below(7, {3, 5}) + 1, b = flags({3, 5}),
                   c = flags({3, 5});
  UNARY(abs, x);
  UNARY(acos, u);
  UNARY(acosh, u + 1);
  UNARY(asin, u);
  UNARY(asinh, x);
  UNARY(atan, x);
  UNARY(atanh, u);
  UNARY(ceil, x);
  UNARY(cos, x);
  UNARY(cosh, x);
  UNARY(digamma, u);
  UNARY(erf, x);
  UNARY(erfc, x);
  UNARY(erfinv, u);
  UNARY(exp, x);
  UNARY(exp2, x);
  UNARY(expm1, x);
  UNARY(floor, x);
  UNARY(frac, x);
  UNARY(lgamma, u);
  UNARY(log, u);
  UNARY(log10, u);
  UNARY(log1p, u);
  UNARY(log2, u);
  UNARY(neg, x);
  UNARY(reciprocal, u);
  UNARY(round, x);
  UNARY(rsqrt, u);
  UNARY(sgn, x);
  UNARY(sigmoid, x);
  UNARY(sign, x);
  UNARY(sin, x);
  UNARY(sinc, x);
  UNARY(sinh, x);
  UNARY(sqrt, u);
  UNARY(square, x);
  UNARY(tan, x);
  UNARY(tanh, x);
  UNARY(trunc, x);
  UNARY(relu, x);
  UNARY_FREE(silu, x);
  UNARY_FREE(mish, x);
  UNARY_FREE(hardswish, x);
  UNARY_FREE(hardsigmoid, x);
  UNARY(i0, x);
  UNARY(bitwise_not, i);
  UNARY(logical_not, b);
  UNARY(nan_to_num, x);
  UNARY(conj_physical, x);
  FUNCTION(isnan, x);
  FUNCTION(isinf, x);
  FUNCTION(isfinite, x);
  FUNCTION(signbit, x);
  FUNCTION(isposinf, x);
  FUNCTION(isneginf, x);
  FUNCTION(angle, x);
  FUNCTION(log_sigmoid, x);
  FUNCTION(selu, x);
  FUNCTION(celu, x);
  FUNCTION(special_entr, u);
  FUNCTION(special_erfcx, x);
  FUNCTION(special_i0e, x);
  FUNCTION(special_i1, x);
  FUNCTION(special_i1e, x);
  FUNCTION(special_ndtri, u);
  FUNCTION(special_log_ndtr, x);
  FUNCTION(special_ndtr, x);
  FUNCTION(special_bessel_j0, x);
  FUNCTION(special_bessel_j1, x);
  FUNCTION(special_bessel_y0, u);
  FUNCTION(special_bessel_y1, u);
  FUNCTION(special_modified_bessel_i0, x);
  FUNCTION(special_modified_bessel_i1, x);
  FUNCTION(special_modified_bessel_k0, u);
  FUNCTION(special_modified_bessel_k1, u);
  FUNCTION(special_airy_ai, x);
  FUNCTION(special_spherical_bessel_j0, u);
  BINARY(atan2, x, y);
  BINARY(hypot, x, y);
  BINARY(igamma, u, v);
  BINARY(igammac, u, v);
  BINARY(nextafter, x, y);
  BINARY(copysign, x, y);
  BINARY(xlogy, u, v);
  BINARY(bitwise_and, i, j);
  BINARY(bitwise_or, i, j);
  BINARY(bitwise_xor, i, j);
  BINARY(bitwise_left_shift, i, j);
  BINARY(bitwise_right_shift, i, j);
  BINARY(logical_and, b, c);
  BINARY(logical_or, b, c);
  BINARY(logical_xor, b, c);
  BINARY(gcd, i, j);
  BINARY(lcm, i, j);
  BINARY(heaviside, x, y);
  BINARY(fmod, x, y);
  BINARY(remainder, x, y);
  BINARY(floor_divide, i, j);
  BINARY(mul, x, y);
  BINARY(div, x, v);
  BINARY(pow, u, y);
#undef BINARY
#define BINARY(f) CALL(#f, IN(x, y), at::f(t[0], t[1]))
  BINARY(logaddexp);
  BINARY(logaddexp2);
  BINARY(maximum);
  BINARY(minimum);
  BINARY(fmax);
  BINARY(fmin);
  BINARY(add);
  BINARY(sub);
  BINARY(rsub);
  BINARY(mse_loss);
  BINARY(smooth_l1_loss);
  BINARY(huber_loss);
  BINARY(soft_margin_loss);
  COMPARE(eq);
  COMPARE(ne);
  COMPARE(lt);
  COMPARE(le);
  COMPARE(gt);
  COMPARE(ge);
  CALL("add.broadcast", IN(x, normal({5})), at::add(t[0], t[1], 2.5));
  CALL("add.Scalar", IN(x), at::add(t[0], 3));
  CALL("add.host_scalar", IN(x), at::add(t[0], at::scalar_tensor(3)));
  CALL("add_.Tensor", IN(x, y), t[0].add_(t[1], -1));
  CALL("sub_.Tensor", IN(x, y), t[0].sub_(t[1]));
  CALL("add.mixed", IN(i, y), at::add(t[0], t[1]));
  CALL("div.mode", IN(x, v), at::div(t[0], t[1], "floor"));
  CALL("div_.mode", IN(x, v), t[0].div_(t[1], "trunc"));
  CALL("mul.Scalar", IN(x), t[0] * 2);
  CALL("pow.Tensor_Scalar", IN(x), t[0].pow(3));
  CALL("pow.Scalar", IN(x), at::pow(2, t[0]));
  CALL("pow_.Scalar", IN(x), t[0].pow_(2));
  CALL("true_divide", IN(i, j), at::true_divide(t[0], t[1]));
  CALL("addcmul", IN(x, y, u), at::addcmul(t[0], t[1], t[2], 0.5));
  CALL("addcmul_", IN(x, y, u), t[0].addcmul_(t[1], t[2], 0.5));
  CALL("addcdiv", IN(x, y, u), at::addcdiv(t[0], t[1], t[2], 0.5));
  CALL("addcdiv_", IN(x, y, u), t[0].addcdiv_(t[1], t[2], 0.5));
  CALL("lerp.Scalar", IN(x, y), at::lerp(t[0], t[1], 0.3));
  CALL("lerp.Tensor", IN(x, y, u), at::lerp(t[0], t[1], t[2]));
  CALL("lerp_.Scalar", IN(x, y), t[0].lerp_(t[1], 0.3));
  CALL("where", IN(b, x, y), at::where(t[0], t[1], t[2]));
  CALL("where.Scalar", IN(b, x), at::where(t[0], t[1], 2.0));
  CALL("clamp", IN(x), at::clamp(t[0], -0.5, 0.5));
  CALL("clamp_", IN(x), t[0].clamp_(-0.5, 0.5));
  CALL("clamp.Tensor", IN(x, y, u), at::clamp(t[0], t[1], t[2]));
  CALL("clamp_min", IN(x), at::clamp_min(t[0], 0));
  CALL("clamp_max", IN(x), at::clamp_max(t[0], 0));
  CALL("clamp_min_", IN(x), t[0].clamp_min_(0));
  CALL("clamp_max_", IN(x), t[0].clamp_max_(0));
  CALL("masked_fill", IN(x, b), at::masked_fill(t[0], t[1], 7));
  CALL("masked_fill_", IN(x, b), t[0].masked_fill_(t[1], 7));
  CALL("masked_fill_.Tensor", IN(x, b, at::scalar_tensor(3.5)), t[0].masked_fill_(t[1], t[2]));
  CALL("masked_scatter_", IN(x, b, y), t[0].masked_scatter_(t[1], t[2]));
  CALL("gelu", IN(x), at::gelu(t[0]));
  CALL("gelu.tanh", IN(x), at::gelu(t[0], "tanh"));
  CALL("gelu_backward", IN(y, x), at::gelu_backward(t[0], t[1], "none"));
  CALL("silu_backward", IN(y, x), at::silu_backward(t[0], t[1]));
  CALL("mish_backward", IN(y, x), at::mish_backward(t[0], t[1]));
  CALL("sigmoid_backward", IN(y, u), at::sigmoid_backward(t[0], t[1]));
  CALL("tanh_backward", IN(y, u), at::tanh_backward(t[0], t[1]));
  CALL("threshold", IN(x), at::threshold(t[0], 0.1, 0));
  CALL("threshold_backward", IN(y, x), at::threshold_backward(t[0], t[1], 0));
  CALL("leaky_relu", IN(x), at::leaky_relu(t[0]));
  CALL("leaky_relu_", IN(x), at::leaky_relu_(const_cast<at::Tensor&>(t[0])));
  CALL("leaky_relu_backward", IN(y, x), at::leaky_relu_backward(t[0], t[1], 0.01, false));
  CALL("elu", IN(x), at::elu(t[0]));
  CALL("elu_backward", IN(y, x), at::elu_backward(t[0], 1, 1, 1, false, t[1]));
  CALL("hardtanh", IN(x), at::hardtanh(t[0]));
  CALL("hardtanh_backward", IN(y, x), at::hardtanh_backward(t[0], t[1], -1, 1));
  CALL("hardswish_backward", IN(y, x), at::hardswish_backward(t[0], t[1]));
  CALL("hardsigmoid_backward", IN(y, x), at::hardsigmoid_backward(t[0], t[1]));
  CALL("hardshrink", IN(x), at::hardshrink(t[0]));
  CALL("hardshrink_backward", IN(y, x), at::hardshrink_backward(t[0], t[1], 0.5));
  CALL("softshrink", IN(x), at::softshrink(t[0]));
  CALL("softshrink_backward", IN(y, x), at::softshrink_backward(t[0], t[1], 0.5));
  CALL("softplus", IN(x), at::softplus(t[0]));
  CALL("softplus_backward", IN(y, x), at::softplus_backward(t[0], t[1], 1, 20));
  CALL("prelu", IN(x, normal({5})), at::prelu(t[0], t[1]));
  CALL("logit", IN(u), at::logit(t[0], 1e-3));
  CALL("logit_backward", IN(y, u), at::logit_backward(t[0], t[1], 1e-3));
  CALL("glu", IN(normal({3, 6})), at::glu(t[0]));
  CALL("glu_backward", IN(normal({3, 3}), normal({3, 6})), at::glu_backward(t[0], t[1], -1));
  CALL("round.decimals", IN(x), at::round(t[0], 2));
  CALL("polygamma", IN(u), at::polygamma(1, t[0]));
  CALL("mvlgamma", IN(u + 2), at::mvlgamma(t[0], 2));
  CALL("special_zeta", IN(u + 1, v), at::special_zeta(t[0], t[1]));
  CALL("special_xlog1py", IN(x, u), at::special_xlog1py(t[0], t[1]));
  CALL("special_chebyshev_polynomial_t", IN(u, j.to(at::kFloat)),
       at::special_chebyshev_polynomial_t(t[0], t[1]));
  CALL("special_hermite_polynomial_h", IN(u, j.to(at::kFloat)),
       at::special_hermite_polynomial_h(t[0], t[1]));
  CALL("special_laguerre_polynomial_l", IN(u, j.to(at::kFloat)),
       at::special_laguerre_polynomial_l(t[0], t[1]));
  CALL("isin", IN(i, j), at::isin(t[0], t[1]));
  CALL("complex", IN(x, y), at::complex(t[0], t[1]));
  CALL("polar", IN(u, y), at::polar(t[0], t[1]));
  CALL("complex.conj.mul", IN(at::complex(x, y)), t[0].conj() * t[0]);
  CALL("complex.neg.imag", IN(at::complex(x, y)), at::imag(t[0].conj()) + 1);
  CALL("complex.exp", IN(at::complex(x, y)), t[0].exp());
  CALL("fill_", IN(x), t[0].fill_(4));
  CALL("fill_.Tensor", IN(x, at::scalar_tensor(2.5)), t[0].fill_(t[1]));
  CALL("zero_", IN(x), t[0].zero_());
  CALL("to.half", IN(x), t[0].to(at::kHalf));
  CALL("to.long", IN(x), t[0].to(at::kLong));
  CALL("clone", IN(x), t[0].clone());
  CALL("copy_.broadcast", IN(x, normal({5})), t[0].copy_(t[1]));
  CALL("frexp", IN(x), std::get<0>(at::frexp(t[0])));
  return cases;
}

}  // namespace tidemark::numbers
