#include "harness/virtual/operators/sweep.h"

namespace tidemark::operators {
std::vector<Case> reduction_cases() {
  std::vector<Case> cases;
  const at::Tensor x = normal({4, 6, 3}), m = normal({5, 7}), b = flags({4, 6}),
                   i = below(20, {4, 6});
  add_named(
      cases, {x},
      {"sum", "mean", "prod", "max", "min", "aminmax", "argmin", "norm", "median", "nanmedian"});
  const std::vector<std::int64_t> second{1};
  add_named(cases, {x},
            {"max.dim", "argmax", "cumsum", "cumsum_", "cumprod", "logcumsumexp", "cummax",
             "cummin", "sort", "argsort", "median.dim", "softmax"},
            {1});
  add_named(cases, {x}, {"nansum", "amax", "logsumexp"}, {second});
  add_named(cases, {x}, {"std", "var_mean", "std_mean"}, {second, 1});
  add_named(cases, {x}, {"topk", "kthvalue"}, {2, 1});
  add_named(cases, {b}, {"sum.bool", "all", "any"});
  CALL("sum.dim", IN(x), t[0].sum(at::IntArrayRef{0, 2}, true));
  CALL("sum.dtype", IN(x), t[0].sum({1}, false, at::kDouble));
  CALL("mean.dim", IN(x), t[0].mean({1}, true));
  CALL("prod.dim_int", IN(x), t[0].prod(1));
  CALL("amin", IN(x), at::amin(t[0], {0, 1}, true));
  TUPLE("min.dim", IN(x), t[0].min(1, true));
  CALL("all.dim", IN(b), t[0].all(1));
  CALL("any.dim", IN(b), t[0].any(0, true));
  CALL("var", IN(x), at::var(t[0], at::OptionalIntArrayRef({0, 2}), 0, true));
  CALL("norm.dim", IN(x), t[0].norm(2, {1}));
  CALL("linalg_vector_norm", IN(x), at::linalg_vector_norm(t[0], 3, at::OptionalIntArrayRef({1})));
  CALL("count_nonzero", IN(b), at::count_nonzero(t[0], at::IntArrayRef{1}));
  CALL("trace", IN(m), t[0].trace());
  TUPLE("sort.descending", IN(x), t[0].sort(std::optional<bool>(true), 0, true));
  CALL("renorm", IN(x), at::renorm(t[0], 2, 0, 1));
  CALL("dist", IN(x, normal({4, 6, 3})), at::dist(t[0], t[1]));
  CALL("cdist", IN(m, normal({3, 7})), at::cdist(t[0], t[1]));
  CALL("histc", IN(x), at::histc(t[0], 5, -1, 1));
  CALL("histc.range", IN(x), at::histc(t[0], 5));
  CALL("bincount", IN(i.flatten()), at::bincount(t[0]));
  CALL("bincount.weights", IN(i.flatten(), normal({24})), at::bincount(t[0], t[1], 30));
  CALL("_log_softmax", IN(x), at::log_softmax(t[0], -1));
  CALL("_softmax_backward_data", IN(x, at::softmax(x, 1)),
       at::_softmax_backward_data(t[0], t[1], 1, t[1].scalar_type()));
  CALL("_log_softmax_backward_data", IN(x, at::log_softmax(x, 1)),
       at::_log_softmax_backward_data(t[0], t[1], 1, t[1].scalar_type()));
  CALL("linalg_cross", IN(x, normal({4, 6, 3})), at::linalg_cross(t[0], t[1]));
  CALL("diff", IN(x), at::diff(t[0], 1, 1));
  // Products
  const at::Tensor a3 = normal({2, 3, 4}), b3 = normal({2, 4, 5}), v = normal({7}), w = normal({5});
  CALL("mm", IN(m, normal({7, 4})), at::mm(t[0], t[1]));
  CALL("mm.transposed", IN(m, normal({4, 7})), at::mm(t[0], t[1].t()));
  CALL("mm.out", IN(m, normal({7, 4}), at::empty({5, 4})),
       at::mm_out(const_cast<at::Tensor&>(t[2]), t[0], t[1]));
  CALL("mm.empty", IN(normal({0, 7}), normal({7, 4})), at::mm(t[0], t[1]));
  CALL("mm.empty_inner", IN(normal({5, 0}), normal({0, 4})), at::mm(t[0], t[1]));
  add_named(cases, {a3, b3}, {"bmm", "matmul"});
  CALL("baddbmm", IN(normal({2, 3, 5}), a3, b3), at::baddbmm(t[0], t[1], t[2], 0.5, 2));
  CALL("baddbmm_", IN(normal({2, 3, 5}), a3, b3), t[0].baddbmm_(t[1], t[2]));
  CALL("addmm", IN(normal({5, 4}), m, normal({7, 4})), at::addmm(t[0], t[1], t[2], 0.5, 2));
  CALL("addmm.bias", IN(normal({4}), m, normal({7, 4})), at::addmm(t[0], t[1], t[2]));
  CALL("addmm_", IN(normal({5, 4}), m, normal({7, 4})), t[0].addmm_(t[1], t[2]));
  CALL("addbmm", IN(normal({3, 5}), a3, b3), at::addbmm(t[0], t[1], t[2]));
  CALL("addmv", IN(w, m, v), at::addmv(t[0], t[1], t[2]));
  CALL("mv", IN(m, v), at::mv(t[0], t[1]));
  CALL("addr", IN(normal({7, 5}), v, w), at::addr(t[0], t[1], t[2]));
  CALL("dot", IN(v, normal({7})), at::dot(t[0], t[1]));
  CALL("vdot", IN(v, normal({7})), at::vdot(t[0], t[1]));
  CALL("outer", IN(v, w), at::outer(t[0], t[1]));
  CALL("einsum", IN(a3, b3), at::einsum("bij,bjk->bik", {t[0], t[1]}));
  CALL("linear", IN(normal({2, 3, 7}), m, w), at::linear(t[0], t[1], t[2]));
  CALL("_addmm_activation", IN(w, normal({3, 7}), normal({7, 5})),
       at::_addmm_activation(t[0], t[1], t[2], 1, 1, true));
  return cases;
}

}  // namespace tidemark::operators
