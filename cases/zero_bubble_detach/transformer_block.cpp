#include "cases/zero_bubble_detach/transformer_block.h"

#include <ATen/ATen.h>

namespace tidemark::zero_bubble_detach {

std::vector<NamedShape> transformer_parameters(const TransformerShape& s) {
  const auto h = s.hidden, kv = s.hidden / s.heads * s.kv_heads;
  return {{"attention_norm", {h}}, {"wq", {h, h}},     {"wk", {kv, h}},
          {"wv", {kv, h}},         {"wo", {h, h}},     {"ffn_norm", {h}},
          {"w1", {s.ffn, h}},      {"w3", {s.ffn, h}}, {"w2", {h, s.ffn}}};
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon, bool in_floats) {
  if (!in_floats) return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
  const at::Tensor wide = x.to(at::kFloat);
  at::Tensor next = wide.pow(2);
  next = next.mean(-1, /*keepdim=*/true);
  next = next + epsilon;
  next = next.rsqrt();
  next = wide * next;
  next = next.to(x.scalar_type());
  return next * weight;
}

at::Tensor transformer_block(const at::Tensor& x, const std::vector<at::Tensor>& parameters,
                             const TransformerShape& s) {
  const auto &norm = parameters[0], &wq = parameters[1], &wk = parameters[2], &wv = parameters[3],
             &wo = parameters[4], &ffn_norm = parameters[5], &w1 = parameters[6],
             &w3 = parameters[7], &w2 = parameters[8];
  const auto tokens = x.size(0), batch = tokens / s.sequence, size = s.hidden / s.heads;
  const auto normed = [&](const at::Tensor& t, const at::Tensor& weight) {
    return rms_norm(t, weight, s.epsilon, s.norms_in_floats);
  };
  const auto split = [&](const at::Tensor& t, std::int64_t heads) {
    return t.view({batch, s.sequence, heads, size});
  };

  at::Tensor n = normed(x, norm);
  at::Tensor q = split(at::linear(n, wq), s.heads);
  at::Tensor k = split(at::linear(n, wk), s.kv_heads), v = split(at::linear(n, wv), s.kv_heads);
  n.reset();
  const bool grouped = s.kv_heads != s.heads;
  const bool flash = x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
  if (grouped && !flash) {
    const auto repeated = [&](const at::Tensor& t) {
      return t.unsqueeze(3)
          .expand({batch, s.sequence, s.kv_heads, s.heads / s.kv_heads, size})
          .reshape({batch, s.sequence, s.heads, size});
    };
    k = repeated(k);
    v = repeated(v);
  }
  at::Tensor out = at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                                    v.transpose(1, 2), {}, 0.0, /*is_causal=*/true,
                                                    std::nullopt, /*enable_gqa=*/grouped && flash);
  q.reset(), k.reset(), v.reset();
  out = out.transpose(1, 2).reshape({tokens, s.hidden});
  const at::Tensor y = x + at::linear(out, wo);
  out.reset();

  const at::Tensor m = normed(y, ffn_norm);
  // Named, because the compiler chooses which argument it computes first; and dropped once read, as
  // Python drops its temporaries: a C++ temporary lives until the full expression ends.
  at::Tensor gate = at::silu(at::linear(m, w1)), up = at::linear(m, w3);
  at::Tensor product = gate * up;
  gate.reset(), up.reset();
  const at::Tensor down = at::linear(product, w2);
  product.reset();
  return y + down;
}

std::vector<NamedShape> mlp_parameters(std::int64_t hidden, std::int64_t ffn) {
  return {{"fc1", {ffn, hidden}}, {"fc2", {hidden, ffn}}};
}

at::Tensor mlp_block(const at::Tensor& x, const std::vector<at::Tensor>& parameters) {
  const at::Tensor wide = at::gelu(at::linear(x, parameters[0]));
  return x + at::linear(wide, parameters[1]);
}

}  // namespace tidemark::zero_bubble_detach
