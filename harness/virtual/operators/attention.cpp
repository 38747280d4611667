#include "harness/virtual/operators/attention.h"

#include <ATen/TensorIndexing.h>

#include <limits>

namespace tidemark::operators {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

at::ScalarType accumulation(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Keys and values once for every query head.
at::Tensor for_each_head(const at::Tensor& tensor, std::int64_t heads) {
  const auto wide = tensor.to(accumulation(tensor));
  return tensor.size(1) == heads ? wide : wide.repeat_interleave(heads / tensor.size(1), 1);
}
at::Tensor sum_of_heads(const at::Tensor& grad, const at::Tensor& like) {
  if (grad.size(1) == like.size(1)) return grad;
  return grad.unflatten(1, {like.size(1), grad.size(1) / like.size(1)}).sum(2);
}

at::Tensor scores(const Attention& a, const at::Tensor& q, const at::Tensor& k) {
  at::Tensor s = at::matmul(q, k.transpose(-2, -1)).mul_(a.scale);
  if (a.bias.defined()) s = s + a.bias.to(s.scalar_type());
  const auto limit = [&](std::int64_t diagonal, bool upper) {
    const auto ones = at::ones({s.size(-2), s.size(-1)}, s.options().dtype(at::kBool));
    s.masked_fill_(upper ? ones.triu(diagonal + 1) : ones.tril(diagonal - 1), -infinity);
  };
  if (a.causal) limit(a.diagonal, true);
  if (a.right && *a.right >= 0) limit(a.diagonal + *a.right, true);
  if (a.left && *a.left >= 0) limit(a.diagonal - *a.left, false);
  return s;
}

// Factors by which dropout multiplies the probabilities: the same in forward and backward, from the
// same random state.
at::Tensor keep(const Attention& a, const at::Tensor& probabilities) {
  return at::empty_like(probabilities)
      .bernoulli_(1 - a.dropout, cpu_generator(a.random))
      .mul_(1 / (1 - a.dropout));
}

}  // namespace

AttentionResult attention_forward(const Attention& a) {
  const auto heads = a.query.size(1);
  const at::Tensor s = scores(a, a.query.to(accumulation(a.query)), for_each_head(a.key, heads));
  at::Tensor lse = at::logsumexp(s, -1);
  lse.masked_fill_(lse == -infinity, infinity);
  at::Tensor p = (s - lse.unsqueeze(-1)).exp_();
  if (a.dropout > 0) p.mul_(keep(a, p));
  return {at::matmul(p, for_each_head(a.value, heads)).to(a.query.scalar_type()), lse};
}

AttentionGradients attention_backward(const Attention& a, const at::Tensor& grad,
                                      const at::Tensor& output, const at::Tensor& logsumexp) {
  const auto type = accumulation(a.query);
  const auto heads = a.query.size(1);
  const at::Tensor q = a.query.to(type), k = for_each_head(a.key, heads),
                   v = for_each_head(a.value, heads);
  const at::Tensor go = grad.to(type);
  const at::Tensor p = (scores(a, q, k) - logsumexp.to(type).unsqueeze(-1)).exp_();
  at::Tensor dropped = p, grad_p = at::matmul(go, v.transpose(-2, -1));
  if (a.dropout > 0) {
    const at::Tensor kept = keep(a, p);
    dropped = p * kept;
    grad_p.mul_(kept);
  }
  const at::Tensor delta = (go * output.to(type)).sum(-1, /*keepdim=*/true);
  const at::Tensor grad_s = p * (grad_p - delta);
  AttentionGradients result;
  result.query = at::matmul(grad_s, k).mul_(a.scale).to(a.query.scalar_type());
  result.key = sum_of_heads(at::matmul(grad_s.transpose(-2, -1), q).mul_(a.scale), a.key)
                   .to(a.key.scalar_type());
  result.value =
      sum_of_heads(at::matmul(dropped.transpose(-2, -1), go), a.value).to(a.value.scalar_type());
  result.bias = grad_s.to(a.query.scalar_type());
  return result;
}

namespace {

// Calls `each` with every sequence that has queries, and its places.
void for_each_sequence(const Packed& packed, const auto& each) {
  const at::Tensor q = packed.begins_q.to(at::kLong), k = packed.begins_k.to(at::kLong);
  for (std::int64_t i = 0; i + 1 < q.numel(); ++i) {
    const at::indexing::Slice queries(q[i].item<std::int64_t>(), q[i + 1].item<std::int64_t>()),
        keys(k[i].item<std::int64_t>(), k[i + 1].item<std::int64_t>());
    const auto of = [](const at::Tensor& tensor, const at::indexing::Slice& part) {
      return tensor.index({at::indexing::Slice(), at::indexing::Slice(), part});
    };
    Attention one = packed.all;
    one.query = of(packed.all.query, queries);
    one.key = of(packed.all.key, keys);
    one.value = of(packed.all.value, keys);
    one.random.offset += static_cast<std::uint64_t>(i);  // other elements drop out in each
    if (packed.to_the_end) one.diagonal = one.key.size(2) - one.query.size(2);
    if (one.query.size(2) > 0) each(i, one, queries, keys);
  }
}

// The part of a logsumexp that is a sequence's: [1, H, S].
at::Tensor of_sequence(const at::Tensor& logsumexp, std::int64_t i,
                       const at::indexing::Slice& queries, std::int64_t count) {
  if (logsumexp.dim() == 2) return logsumexp.index({at::indexing::Slice(), queries}).unsqueeze(0);
  return logsumexp[i].slice(-1, 0, count).unsqueeze(0);
}

}  // namespace

AttentionResult attention_forward(const Packed& packed, at::IntArrayRef logsumexp_sizes) {
  const Attention& all = packed.all;
  AttentionResult result;
  result.output =
      at::zeros({1, all.query.size(1), all.query.size(2), all.value.size(3)}, all.query.options());
  result.logsumexp =
      at::full(logsumexp_sizes, infinity, all.query.options().dtype(accumulation(all.query)));
  for_each_sequence(packed, [&](std::int64_t i, const Attention& one, const auto& queries, auto&) {
    const AttentionResult r = attention_forward(one);
    result.output.index_put_({at::indexing::Slice(), at::indexing::Slice(), queries}, r.output);
    if (result.logsumexp.numel() > 0)
      of_sequence(result.logsumexp, i, queries, one.query.size(2)).copy_(r.logsumexp);
  });
  return result;
}

AttentionGradients attention_backward(const Packed& packed, const at::Tensor& grad,
                                      const at::Tensor& output, const at::Tensor& logsumexp) {
  const Attention& all = packed.all;
  AttentionGradients result{
      at::zeros_like(all.query), at::zeros_like(all.key), at::zeros_like(all.value), {}};
  using at::indexing::Slice;
  for_each_sequence(
      packed, [&](std::int64_t i, const Attention& one, const Slice& queries, const Slice& keys) {
        const auto g = attention_backward(one, grad.index({Slice(), Slice(), queries}),
                                          output.index({Slice(), Slice(), queries}),
                                          of_sequence(logsumexp, i, queries, one.query.size(2)));
        result.query.index_put_({Slice(), Slice(), queries}, g.query);
        result.key.index_put_({Slice(), Slice(), keys}, g.key);
        result.value.index_put_({Slice(), Slice(), keys}, g.value);
      });
  return result;
}

}  // namespace tidemark::operators
