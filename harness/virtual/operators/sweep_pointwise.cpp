#include "harness/virtual/operators/sweep.h"

namespace tidemark::operators {

std::vector<Case> pointwise_cases() {
  std::vector<Case> cases;
  const at::Tensor x = normal({3, 5}), y = normal({3, 5}), u = unit({3, 5}), v = unit({3, 5});
  const at::Tensor i = below(50, {3, 5}), j = below(7, {3, 5}) + 1, b = flags({3, 5}),
                   c = flags({3, 5});
  add_forms(cases, {x},
            {"abs", "neg", "sgn", "sign", "ceil", "floor", "round", "trunc", "frac", "square"});
  add_forms(cases, {x},
            {"exp", "exp2", "expm1", "erf", "erfc", "i0", "nan_to_num", "conj_physical"});
  add_forms(cases, {x}, {"sin", "cos", "tan", "sinc", "atan", "sinh", "cosh", "tanh", "asinh"});
  add_forms(cases, {x}, {"sigmoid", "relu", "silu", "mish", "hardswish", "hardsigmoid"});
  add_forms(cases, {u},
            {"acos", "asin", "atanh", "digamma", "erfinv", "lgamma", "log", "log10", "log1p",
             "log2", "reciprocal", "rsqrt", "sqrt"});
  add_forms(cases, {u + 1}, {"acosh"});
  add_forms(cases, {i}, {"bitwise_not"});
  add_forms(cases, {b}, {"logical_not"});
  add_forms(cases, {x, y},
            {"atan2", "hypot", "nextafter", "copysign", "heaviside", "fmod", "remainder", "mul"});
  add_forms(cases, {u, v}, {"igamma", "igammac", "xlogy"});
  add_forms(cases, {i, j},
            {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
             "bitwise_right_shift", "gcd", "lcm", "floor_divide"});
  add_forms(cases, {b, c}, {"logical_and", "logical_or", "logical_xor"});
  add_forms(cases, {x, v}, {"div"});
  add_forms(cases, {u, y}, {"pow"});
  add_named(cases, {x}, {"isnan", "isinf", "isfinite", "signbit", "isposinf", "isneginf"});
  add_named(cases, {x}, {"angle", "zero_", "clone"});
  add_named(cases, {x},
            {"log_sigmoid", "selu", "celu", "gelu", "leaky_relu", "leaky_relu_", "elu"});
  add_named(cases, {x}, {"hardtanh", "hardshrink", "softshrink", "softplus"});
  add_named(cases, {x},
            {"special_erfcx", "special_i0e", "special_i1", "special_i1e", "special_ndtr",
             "special_log_ndtr", "special_airy_ai"});
  add_named(cases, {x},
            {"special_bessel_j0", "special_bessel_j1", "special_modified_bessel_i0",
             "special_modified_bessel_i1"});
  add_named(cases, {u},
            {"special_bessel_y0", "special_bessel_y1", "special_modified_bessel_k0",
             "special_modified_bessel_k1"});
  add_named(cases, {u}, {"special_entr", "special_ndtri", "special_spherical_bessel_j0"});
  add_named(cases, {x, y},
            {"logaddexp", "logaddexp2", "maximum", "minimum", "fmax", "fmin", "complex"});
  add_named(cases, {x, y}, {"add", "sub", "sub_.Tensor", "rsub"});
  add_named(cases, {x, y}, {"mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"});
  add_named(cases, {x, y},
            {"eq", "ne", "lt", "le", "gt", "ge", "eq_", "ne_", "lt_", "le_", "gt_", "ge_"});
  add_named(cases, {y, x},
            {"gelu_backward", "silu_backward", "mish_backward", "hardswish_backward",
             "hardsigmoid_backward"});
  add_named(cases, {y, u}, {"sigmoid_backward", "tanh_backward"});
  add_named(cases, {x, y, u}, {"lerp.Tensor", "clamp.Tensor"});
  add_named(cases, {i, j}, {"true_divide", "isin"});
  add_named(cases, {u, j.to(at::kFloat)},
            {"special_chebyshev_polynomial_t", "special_hermite_polynomial_h",
             "special_laguerre_polynomial_l"});
  add_named(cases, {x},
            {"eq.Scalar", "ne.Scalar", "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar"}, {0.25});
  add_named(cases, {x}, {"add.Scalar", "pow.Tensor_Scalar"}, {3});
  add_named(cases, {x}, {"mul.Scalar", "pow_.Scalar", "round.decimals", "fill_"}, {2});
  add_named(cases, {x}, {"clamp_min", "clamp_max", "clamp_min_", "clamp_max_"}, {0});
  add_named(cases, {x}, {"clamp", "clamp_"}, {-0.5, 0.5});
  add_named(cases, {x, y}, {"lerp.Scalar", "lerp_.Scalar"}, {0.3});
  add_named(cases, {x, normal({5})}, {"prelu", "copy_.broadcast"});
  add_named(cases, {x, y, u}, {"addcmul", "addcmul_", "addcdiv", "addcdiv_"}, {0.5});
  add_named(cases, {x, b}, {"masked_fill", "masked_fill_"}, {7});
  add_named(cases, {y, x}, {"hardshrink_backward", "softshrink_backward"}, {0.5});
  CALL("add.broadcast", IN(x, normal({5})), at::add(t[0], t[1], 2.5));
  CALL("add.host_scalar", IN(x), at::add(t[0], at::scalar_tensor(3)));
  CALL("add_.Tensor", IN(x, y), t[0].add_(t[1], -1));
  CALL("add.mixed", IN(i, y), at::add(t[0], t[1]));
  CALL("div.mode", IN(x, v), at::div(t[0], t[1], "floor"));
  CALL("div_.mode", IN(x, v), t[0].div_(t[1], "trunc"));
  CALL("pow.Scalar", IN(x), at::pow(2, t[0]));
  CALL("where", IN(b, x, y), at::where(t[0], t[1], t[2]));
  CALL("where.Scalar", IN(b, x), at::where(t[0], t[1], 2.0));
  CALL("masked_fill_.Tensor", IN(x, b, at::scalar_tensor(3.5)), t[0].masked_fill_(t[1], t[2]));
  CALL("masked_scatter_", IN(x, b, y), t[0].masked_scatter_(t[1], t[2]));
  CALL("gelu.tanh", IN(x), at::gelu(t[0], "tanh"));
  CALL("threshold", IN(x), at::threshold(t[0], 0.1, 0));
  CALL("threshold_backward", IN(y, x), at::threshold_backward(t[0], t[1], 0));
  CALL("leaky_relu_backward", IN(y, x), at::leaky_relu_backward(t[0], t[1], 0.01, false));
  CALL("elu_backward", IN(y, x), at::elu_backward(t[0], 1, 1, 1, false, t[1]));
  CALL("hardtanh_backward", IN(y, x), at::hardtanh_backward(t[0], t[1], -1, 1));
  CALL("softplus_backward", IN(y, x), at::softplus_backward(t[0], t[1], 1, 20));
  CALL("logit", IN(u), at::logit(t[0], 1e-3));
  CALL("logit_backward", IN(y, u), at::logit_backward(t[0], t[1], 1e-3));
  CALL("glu", IN(normal({3, 6})), at::glu(t[0]));
  CALL("glu_backward", IN(normal({3, 3}), normal({3, 6})), at::glu_backward(t[0], t[1], -1));
  CALL("polygamma", IN(u), at::polygamma(1, t[0]));
  CALL("mvlgamma", IN(u + 2), at::mvlgamma(t[0], 2));
  CALL("special_zeta", IN(u + 1, v), at::special_zeta(t[0], t[1]));
  CALL("special_xlog1py", IN(x, u), at::special_xlog1py(t[0], t[1]));
  CALL("polar", IN(u, y), at::polar(t[0], t[1]));
  CALL("complex.conj.mul", IN(at::complex(x, y)), t[0].conj() * t[0]);
  CALL("complex.neg.imag", IN(at::complex(x, y)), at::imag(t[0].conj()) + 1);
  CALL("complex.exp", IN(at::complex(x, y)), t[0].exp());
  CALL("_fft_r2c", IN(x), at::_fft_r2c(t[0], {1}, 0, true));
  CALL("_fft_c2c", IN(at::complex(x, y)), at::_fft_c2c(t[0], {0, 1}, 0, true));
  CALL("_fft_c2r", IN(at::complex(x, y)), at::_fft_c2r(t[0], {1}, 2, 2 * (t[0].size(1) - 1)));
  CALL("fill_.Tensor", IN(x, at::scalar_tensor(2.5)), t[0].fill_(t[1]));
  CALL("to.half", IN(x), t[0].to(at::kHalf));
  CALL("to.long", IN(x), t[0].to(at::kLong));
  CALL("frexp", IN(x), std::get<0>(at::frexp(t[0])));
  return cases;
}

}  // namespace tidemark::operators
