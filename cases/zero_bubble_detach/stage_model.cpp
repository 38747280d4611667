#include "cases/zero_bubble_detach/stage_model.h"

#include <ATen/ATen.h>

#include "cases/zero_bubble_detach/checkpoint.h"

namespace tidemark::zero_bubble_detach {

std::vector<ModelParameter> parameters_of(const Sizes& s, const StagePlace& place) {
  const auto h = s.hidden, f = s.ffn, kv = s.hidden / s.heads * s.kv_heads;
  std::vector<ModelParameter> all, block{{"fc1", {f, h}}, {"fc2", {h, f}}};
  if (s.transformer)
    block = {{"attention_norm", {h}}, {"fc.wq", {h, h}}, {"fc.wk", {kv, h}},
             {"fc.wv", {kv, h}},      {"fc.wo", {h, h}}, {"ffn_norm", {h}},
             {"fc.w1", {f, h}},       {"fc.w3", {f, h}}, {"fc.w2", {h, f}}};
  if (place.first) all.push_back({"embedding", {s.vocabulary, h}, -1});
  for (auto layer = place.first_layer; layer < place.end_layer; ++layer)
    for (const auto& [name, shape, unused] : block)
      all.push_back({"layers." + std::to_string(layer) + "." + name, shape, layer});
  if (place.last) {
    all.push_back({"norm", {h}, s.layers});
    all.push_back({"fc.head", {s.vocabulary, h}, s.layers});
  }
  return all;
}

namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const Sizes& s) {
  constexpr double kEpsilon = 1e-5;
  if (!s.norms_in_floats) return at::rms_norm(x, {x.size(-1)}, weight, kEpsilon);
  const at::Tensor wide = x.to(at::kFloat);
  at::Tensor next = wide.pow(2);
  next = next.mean(-1, /*keepdim=*/true);
  next = next + kEpsilon;
  next = next.rsqrt();
  next = wide * next;
  next = next.to(x.scalar_type());
  return next * weight;
}

at::Tensor transformer_block(const at::Tensor& x, const Tensors& p, const Sizes& s) {
  const auto tokens = x.size(0), batch = tokens / s.sequence, size = s.hidden / s.heads;
  const auto split = [&](const at::Tensor& t, std::int64_t heads) {
    return t.view({batch, s.sequence, heads, size});
  };
  at::Tensor n = norm(x, p[0], s);
  at::Tensor q = split(at::linear(n, p[1]), s.heads);
  at::Tensor k = split(at::linear(n, p[2]), s.kv_heads), v = split(at::linear(n, p[3]), s.kv_heads);
  n.reset();
  const bool grouped = s.kv_heads != s.heads;
  if (grouped && !s.bf16)
    for (at::Tensor* one : {&k, &v})
      *one = one->unsqueeze(3)
                 .expand({batch, s.sequence, s.kv_heads, s.heads / s.kv_heads, size})
                 .reshape({batch, s.sequence, s.heads, size});
  at::Tensor out = at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                                    v.transpose(1, 2), {}, 0.0, /*is_causal=*/true,
                                                    std::nullopt, /*enable_gqa=*/grouped && s.bf16);
  q.reset(), k.reset(), v.reset();
  out = out.transpose(1, 2).reshape({tokens, s.hidden});
  const at::Tensor y = x + at::linear(out, p[4]);
  out.reset();

  const at::Tensor m = norm(y, p[5], s);
  // Named, because the compiler chooses which argument it computes first; and dropped once read, as
  // Python drops its temporaries: a C++ temporary lives until the full expression ends.
  at::Tensor gate = at::silu(at::linear(m, p[6])), up = at::linear(m, p[7]);
  at::Tensor product = gate * up;
  gate.reset(), up.reset();
  const at::Tensor down = at::linear(product, p[8]);
  product.reset();
  return y + down;
}

at::Tensor mlp_block(const at::Tensor& x, const Tensors& p) {
  const at::Tensor wide = at::gelu(at::linear(x, p[0]));
  return x + at::linear(wide, p[1]);
}

}  // namespace

at::Tensor stage_forward(const Sizes& s, const StagePlace& place, const Tensors& parameters,
                         const at::Tensor& input) {
  auto next = parameters.begin();
  at::Tensor x = place.first ? at::embedding(*next++, input) : input;
  const auto count = s.parameters_a_block();
  for (auto layer = place.first_layer; layer < place.end_layer; ++layer, next += count) {
    const auto run = [weights = Tensors(next, next + count), s](const at::Tensor& t) {
      return s.transformer ? transformer_block(t, weights, s) : mlp_block(t, weights);
    };
    x = s.checkpointed(layer) ? checkpoint(run, x) : run(x);
  }
  return place.last ? at::linear(norm(x, next[0], s), next[1]) : x;
}

}  // namespace tidemark::zero_bubble_detach
