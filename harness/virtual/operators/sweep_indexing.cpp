#include "harness/virtual/operators/sweep.h"

namespace tidemark::operators {
#define RANDOM(label, inputs, expression)                                                    \
  add(                                                                                       \
      cases, label, inputs, [](const Tensors& t) -> Tensors { return {expression}; }, false, \
      false)

std::vector<Case> indexing_cases() {
  std::vector<Case> cases;
  const at::Tensor x = normal({6, 4}), i = below(6, {5}), wide = below(6, {3, 4}),
                   src = normal({3, 4});
  const at::Tensor b = flags({6, 4}), rows = at::tensor({4, 0, 2}, at::kLong);
  add_named(cases, {x}, {"rot90", "tril", "tril_", "triu_", "ones_like", "zeros_like"});
  add_named(cases, {b}, {"nonzero", "argwhere"});
  add_named(cases, {x},
            {"uniform_", "normal_", "bernoulli_", "exponential_", "cauchy_", "log_normal_"}, {},
            /*values=*/false, /*vary=*/false);
  CALL("index", IN(x, i), t[0].index({t[1]}));
  CALL("index.two", IN(x, i, below(4, {5})), t[0].index({t[1], t[2]}));
  CALL("index.host", IN(x), t[0].index({at::tensor({1, 3}, at::kLong)}));
  CALL("index_put_", IN(x, rows, src), t[0].index_put_({t[1]}, t[2]));
  CALL("index_put_.accumulate", IN(x, below(6, {3}), src), t[0].index_put_({t[1]}, t[2], true));
  CALL("index_select", IN(x, i), t[0].index_select(0, t[1]));
  CALL("index_add", IN(x, below(6, {3}), src), at::index_add(t[0], 0, t[1], t[2], 2));
  CALL("index_add_", IN(x, below(6, {3}), src), t[0].index_add_(0, t[1], t[2]));
  CALL("index_copy", IN(x, rows, src), at::index_copy(t[0], 0, t[1], t[2]));
  CALL("index_fill_", IN(x, rows), t[0].index_fill_(0, t[1], 9));
  CALL("index_reduce", IN(x, rows, src), at::index_reduce(t[0], 0, t[1], t[2], "amax"));
  CALL("gather", IN(x, wide), t[0].gather(0, t[1]));
  CALL("scatter", IN(x, wide, src), at::scatter(t[0], 0, t[1].sub(t[1]), t[2] * 0 + 1));
  CALL("scatter.value", IN(x, wide), at::scatter(t[0], 0, t[1], 3.0));
  CALL("scatter_.value", IN(x, wide), t[0].scatter_(0, t[1], 3.0));
  CALL("scatter_add", IN(x, wide, src), at::scatter_add(t[0], 0, t[1], t[2]));
  CALL("scatter_add_", IN(x, wide, src), t[0].scatter_add_(0, t[1], t[2]));
  CALL("scatter_reduce", IN(x, wide, src), at::scatter_reduce(t[0], 0, t[1], t[2], "amax"));
  CALL("scatter.reduce", IN(x, wide, src), at::scatter(t[0], 0, t[1], t[2], "multiply"));
  CALL("take", IN(x, below(24, {5})), at::take(t[0], t[1]));
  CALL("take_along_dim", IN(x, wide), at::take_along_dim(t[0], t[1], 0));
  CALL("put_", IN(x, rows, normal({3})), t[0].put_(t[1], t[2]));
  CALL("masked_fill.view", IN(x, flags({6})), t[0].t().masked_fill_(t[1], 1));
  CALL("searchsorted", IN(std::get<0>(x.sort(1)), normal({6, 2})), at::searchsorted(t[0], t[1]));
  CALL("bucketize", IN(x, std::get<0>(normal({5}).sort(0))), at::bucketize(t[0], t[1]));
  CALL("cat", IN(x, normal({2, 4})), at::cat({t[0], t[1]}));
  CALL("cat.dim", IN(x, normal({6, 1})), at::cat({t[0], t[1]}, 1));
  CALL("cat.out", IN(x, normal({2, 4}), at::empty({8, 4})),
       at::cat_out(const_cast<at::Tensor&>(t[2]), {t[0], t[1]}));
  CALL("stack", IN(x, normal({6, 4})), at::stack({t[0], t[1]}, 1));
  CALL("flip", IN(x), at::flip(t[0], {0, 1}));
  CALL("roll", IN(x), at::roll(t[0], {2, 1}, {0, 1}));
  CALL("triu", IN(x), at::triu(t[0], 1));
  CALL("repeat", IN(x), t[0].repeat({2, 3}));
  CALL("repeat_interleave", IN(x), t[0].repeat_interleave(3, 0));
  CALL("repeat_interleave.Tensor", IN(at::tensor({2, 0, 3}, at::kLong)),
       at::repeat_interleave(t[0]));
  CALL("repeat_interleave.size", IN(x, at::tensor({2, 0, 3, 1, 1, 1}, at::kLong)),
       at::repeat_interleave(t[0], t[1], 0, 8));
  CALL("nonzero.none", IN(b), (t[0] & false).nonzero());
  CALL("masked_select", IN(x, b), t[0].masked_select(t[1]));
  CALL("index.mask", IN(x, b), t[0].index({t[1]}));
  CALL("index_put_.mask", IN(x, b), t[0].index_put_({t[1]}, at::scalar_tensor(5, t[0].options())));
  CALL("embedding", IN(x, i), at::embedding(t[0], t[1]));
  CALL("embedding_dense_backward", IN(normal({5, 4}), i),
       at::embedding_dense_backward(t[0], t[1], 6, -1, false));
  const auto add_bags = [&](const char* label, const at::Tensor& bags, int mode, bool has_end) {
    add(
        cases, label, IN(x, i, bags),
        [mode, has_end](const Tensors& t) -> Tensors {
          return {
              std::get<0>(at::_embedding_bag(t[0], t[1], t[2], false, mode, false, {}, has_end))};
        },
        true, false);
  };
  add_bags("_embedding_bag", at::tensor({0, 2, 2}, at::kLong), 0, false);
  add_bags("_embedding_bag.means", at::tensor({0, 2, 2}, at::kLong), 1, false);
  add_bags("_embedding_bag.maxima", at::tensor({0, 3, 5}, at::kLong), 2, true);
  CALL("one_hot", IN(i), at::one_hot(t[0], 6));
  CALL("diag", IN(normal({4})), at::diag(t[0]));
  CALL("diagonal.add", IN(normal({4, 4})), t[0].diagonal().add_(1));
  CALL("narrow.copy", IN(x), t[0].narrow(0, 1, 3).contiguous());
  CALL("unfold.sum", IN(normal({9})), t[0].unfold(0, 3, 2).sum(1));
  CALL("view", IN(x), t[0].view({4, 6}).mul_(2));
  CALL("expand.contiguous", IN(normal({1, 4})), t[0].expand({3, 4}).contiguous());
  CALL("as_strided.add", IN(x), t[0].as_strided({3, 2}, {4, 1}, 1).add_(1));
  CALL("split.cat", IN(x), at::cat(t[0].split(4), 0));
  CALL("pad.constant", IN(x), at::constant_pad_nd(t[0], {1, 2, 0, 1}, 3));
  CALL("arange", IN(x), at::arange(1, 20, 3, t[0].options()));
  CALL("linspace", IN(x), at::linspace(0, 1, 7, t[0].options()));
  CALL("logspace", IN(x), at::logspace(0, 1, 7, 10, t[0].options()));
  CALL("eye", IN(x), at::eye(3, 5, t[0].options()));
  CALL("full", IN(x), at::full({3}, 2.5, t[0].options()));
  CALL("tril_indices", IN(i), at::tril_indices(3, 4, 0, t[0].options()));
  CALL("meshgrid", IN(normal({3}), normal({2})), at::meshgrid({t[0], t[1]}, "ij")[1].contiguous());
  CALL("to_host_and_back", IN(x), t[0].to(at::kCPU).clone().to(t[0].device()));
  CALL("pinned", IN(x),
       at::empty({6, 4}, at::TensorOptions().pinned_memory(true))
           .copy_(t[0], true)
           .to(t[0].device()));
  CALL("copy_.transposed", IN(x), at::empty({4, 6}, t[0].options()).copy_(t[0].t()));
  TUPLE("_unique2", IN(i), at::_unique2(t[0], true, true, true));
  CALL("unique_consecutive", IN(i), std::get<0>(at::unique_consecutive(t[0], true, true)));
  TUPLE("_unique2.bool", IN(b), at::_unique2(t[0], true, true, true));
  TUPLE("_unique2.true", IN(b | true), at::_unique2(t[0], true, true, true));
  const auto few = below(2, {7, 3});
  TUPLE("unique_dim", IN(few), at::unique_dim(t[0], 0, true, true, true));
  CALL("unique_dim.alone", IN(few), std::get<0>(at::unique_dim(t[0], 1)).contiguous());
  TUPLE("unique_dim_consecutive", IN(few), at::unique_dim_consecutive(t[0], 0, true, true));
  CALL("unique_consecutive.dim", IN(few),
       std::get<0>(at::unique_consecutive(t[0], false, false, 0)));
  CALL("searchsorted.sorter", IN(x, std::get<1>(x.sort(1)), normal({6, 2})),
       at::searchsorted(t[0], t[2], false, false, {}, t[1]));
  CALL("embedding_renorm_", IN(x, i),
       at::embedding_renorm_(const_cast<at::Tensor&>(t[0]), t[1], 0.5, 2));
  CALL("equal", IN(x), at::scalar_tensor(at::equal(t[0], t[0])));
  CALL("mode", IN(wide), std::get<0>(at::mode(t[0], 1)));
  CALL("mode.long", IN(below(5, {2, 3000})), std::get<0>(at::mode(t[0], 1)));
  CALL("mode.longer", IN(unit({4097}).mul(9).round()), std::get<1>(at::mode(t[0], 0, true)));
  RANDOM("randn", IN(x), at::randn({5}, t[0].options()));
  RANDOM("bernoulli", IN(at::full({6, 4}, 0.5)), at::bernoulli(t[0]));
  RANDOM("geometric_", IN(x), t[0].geometric_(0.5));
  RANDOM("random_", IN(x), t[0].random_(3, 9));
  RANDOM("randperm", IN(i), at::randperm(6, t[0].options()));
  RANDOM("randint", IN(i), at::randint(0, 6, {4}, t[0].options()));
  RANDOM("normal.Tensor", IN(x), at::normal(t[0], 1.0));
  RANDOM("normal.Tensor_Tensor", IN(x, x.abs()), at::normal(t[0], t[1]));
  RANDOM("normal.float_Tensor", IN(x.abs()), at::normal(2.0, t[0]));
  RANDOM("poisson", IN(x.abs()), at::poisson(t[0]));
  RANDOM("multinomial", IN(unit({3, 6})), at::multinomial(t[0], 2));
  RANDOM("native_dropout", IN(x), std::get<0>(at::native_dropout(t[0], 0.5, true)));
  RANDOM("rrelu", IN(x), at::rrelu(t[0], 0.1, 0.3, true));
  return cases;
}

}  // namespace tidemark::operators
