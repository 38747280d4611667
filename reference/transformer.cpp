#include "reference/transformer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

enum Which { attention_norm, query, key, value, out, mlp_norm, gate, up, down, kinds };

/// w [i, o] <-> [o, i].
Values transposed(const Values& w, std::size_t i) {
  const auto o = w.size() / i;
  Values t(w.size());
  for (std::size_t a = 0; a < i; ++a)
    for (std::size_t b = 0; b < o; ++b) t[b * i + a] = w[a * o + b];
  return t;
}

Values norm(const Values& x, const Values& weight) {
  const auto h = weight.size();
  Values y(x.size());
  for (std::size_t r = 0; r < x.size() / h; ++r) {
    double square = 0;
    for (std::size_t j = 0; j < h; ++j) square += x[r * h + j] * x[r * h + j];
    const double scale = 1 / std::sqrt(square / static_cast<double>(h) + 1e-5);
    for (std::size_t j = 0; j < h; ++j) y[r * h + j] = x[r * h + j] * scale * weight[j];
  }
  return y;
}

/// Adds to dx and dweight.
void norm_backward(const Values& dy, const Values& x, const Values& weight, Values& dx,
                   Values& dweight) {
  const auto h = weight.size();
  for (std::size_t r = 0; r < x.size() / h; ++r) {
    const double* row = &x[r * h];
    double square = 0, dot = 0;
    for (std::size_t j = 0; j < h; ++j) {
      square += row[j] * row[j];
      dot += dy[r * h + j] * weight[j] * row[j];
    }
    const double mean = square / static_cast<double>(h) + 1e-5, scale = 1 / std::sqrt(mean);
    for (std::size_t j = 0; j < h; ++j) {
      dweight[j] += dy[r * h + j] * row[j] * scale;
      dx[r * h + j] +=
          scale * (dy[r * h + j] * weight[j] - row[j] * dot / (mean * static_cast<double>(h)));
    }
  }
}

struct Heads {
  std::size_t sequence, batch, heads, kv_heads, head;
  std::size_t at(std::size_t s, std::size_t b, std::size_t n, std::size_t of) const {
    return ((s * batch + b) * of + n) * head;
  }
};

/// The causal softmax's weights of one query over keys 0 .. s.
Values attention_weights(const Heads& a, const Values& q, const Values& k, std::size_t s,
                         std::size_t b, std::size_t n) {
  Values p(s + 1);
  double largest = -INFINITY, sum = 0;
  for (std::size_t t = 0; t <= s; ++t) {
    for (std::size_t j = 0; j < a.head; ++j) {
      p[t] +=
          q[a.at(s, b, n, a.heads) + j] * k[a.at(t, b, n * a.kv_heads / a.heads, a.kv_heads) + j];
    }
    p[t] /= std::sqrt(static_cast<double>(a.head));
    largest = std::max(largest, p[t]);
  }
  for (auto& v : p) sum += v = std::exp(v - largest);
  for (auto& v : p) v /= sum;
  return p;
}

template <class Each>  // each(s, b, n, head of keys, weights)
void for_each_query(const Heads& a, const Values& q, const Values& k, Each each) {
  for (std::size_t s = 0; s < a.sequence; ++s)
    for (std::size_t b = 0; b < a.batch; ++b)
      for (std::size_t n = 0; n < a.heads; ++n) {
        each(s, b, n, n * a.kv_heads / a.heads, attention_weights(a, q, k, s, b, n));
      }
}

Values attention(const Heads& a, const Values& q, const Values& k, const Values& v) {
  Values y(q.size());
  for_each_query(a, q, k, [&](auto s, auto b, auto n, auto m, const Values& p) {
    for (std::size_t t = 0; t <= s; ++t)
      for (std::size_t j = 0; j < a.head; ++j)
        y[a.at(s, b, n, a.heads) + j] += p[t] * v[a.at(t, b, m, a.kv_heads) + j];
  });
  return y;
}

void attention_backward(const Heads& a, const Values& dy, const Values& q, const Values& k,
                        const Values& v, Values& dq, Values& dk, Values& dv) {
  const double scale = 1 / std::sqrt(static_cast<double>(a.head));
  for_each_query(a, q, k, [&](auto s, auto b, auto n, auto m, const Values& p) {
    const auto here = a.at(s, b, n, a.heads);
    Values dp(p.size());
    double mean = 0;
    for (std::size_t t = 0; t <= s; ++t) {
      const auto there = a.at(t, b, m, a.kv_heads);
      for (std::size_t j = 0; j < a.head; ++j) {
        dp[t] += dy[here + j] * v[there + j];
        dv[there + j] += p[t] * dy[here + j];
      }
      mean += p[t] * dp[t];
    }
    for (std::size_t t = 0; t <= s; ++t) {
      const auto there = a.at(t, b, m, a.kv_heads);
      const double d = p[t] * (dp[t] - mean) * scale;
      for (std::size_t j = 0; j < a.head; ++j) {
        dq[here + j] += d * k[there + j];
        dk[there + j] += d * q[here + j];
      }
    }
  });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Tensors of a block that its backward needs.
struct Kept {
  Values input, first, q, k, v, attended, middle, second, gate, up, active;
};

struct Weights {
  std::vector<Values> w;  // as stored; out and down transposed to [output, input]
};

Values forward(const Heads& a, const Weights& p, const Values& x, Kept& kept) {
  const auto h = p.w[attention_norm].size();
  kept.input = x;
  kept.first = norm(x, p.w[attention_norm]);
  kept.q = product(kept.first, p.w[query], h);
  kept.k = product(kept.first, p.w[key], h);
  kept.v = product(kept.first, p.w[value], h);
  kept.attended = attention(a, kept.q, kept.k, kept.v);
  kept.middle = product(kept.attended, p.w[out], a.heads * a.head);
  for (std::size_t i = 0; i < x.size(); ++i) kept.middle[i] += x[i];
  kept.second = norm(kept.middle, p.w[mlp_norm]);
  kept.gate = product(kept.second, p.w[gate], h);
  kept.up = product(kept.second, p.w[up], h);
  kept.active = kept.gate;
  for (std::size_t i = 0; i < kept.gate.size(); ++i) {
    kept.active[i] = kept.gate[i] * sigmoid(kept.gate[i]) * kept.up[i];
  }
  Values y = product(kept.active, p.w[down], p.w[gate].size() / h);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += kept.middle[i];
  return y;
}

Values backward(const Heads& a, const Weights& p, const Kept& kept, const Values& dy,
                std::vector<Values>& d) {
  const auto h = p.w[attention_norm].size();
  const auto f = p.w[gate].size() / h;
  const auto zeros = [](const Values& like) { return Values(like.size()); };
  Values dactive = zeros(kept.active), dgate = zeros(kept.gate), dup = zeros(kept.up);
  product_backward(dy, kept.active, p.w[down], f, dactive, d[down]);
  for (std::size_t i = 0; i < dactive.size(); ++i) {
    const double s = sigmoid(kept.gate[i]);
    dup[i] = dactive[i] * kept.gate[i] * s;
    dgate[i] = dactive[i] * kept.up[i] * s * (1 + kept.gate[i] * (1 - s));
  }
  Values dsecond = zeros(kept.second), dmiddle = dy;
  product_backward(dgate, kept.second, p.w[gate], h, dsecond, d[gate]);
  product_backward(dup, kept.second, p.w[up], h, dsecond, d[up]);
  norm_backward(dsecond, kept.middle, p.w[mlp_norm], dmiddle, d[mlp_norm]);

  Values dattended = zeros(kept.attended), dfirst = zeros(kept.first), dx = dmiddle;
  product_backward(dmiddle, kept.attended, p.w[out], a.heads * a.head, dattended, d[out]);
  Values dq = zeros(kept.q), dk = zeros(kept.k), dv = zeros(kept.v);
  attention_backward(a, dattended, kept.q, kept.k, kept.v, dq, dk, dv);
  product_backward(dq, kept.first, p.w[query], h, dfirst, d[query]);
  product_backward(dk, kept.first, p.w[key], h, dfirst, d[key]);
  product_backward(dv, kept.first, p.w[value], h, dfirst, d[value]);
  norm_backward(dfirst, kept.input, p.w[attention_norm], dx, d[attention_norm]);
  return dx;
}

}  // namespace

std::vector<Tensor> transformer_parameters(const TransformerRun& run) {
  const auto h = size(run.hidden), f = size(run.ffn), q = h,
             kv = h / size(run.heads) * size(run.kv_heads);
  const std::pair<const char*, std::size_t> shapes[kinds] = {
      {"attention_norm", h}, {"fc_query", q * h}, {"fc_key", kv * h},
      {"fc_value", kv * h},  {"fc_out", q * h},   {"mlp_norm", h},
      {"fc_gate", f * h},    {"fc_up", f * h},    {"fc_down", f * h}};
  std::vector<Tensor> p;
  for (std::int64_t l = 0; l < run.layers; ++l) {
    for (const auto& [name, numel] : shapes) {
      p.push_back({"layers." + std::to_string(l) + "." + name, Values(numel)});
      fill(run.seed, p.back().name, 0, p.back().values);
    }
  }
  return p;
}

double transformer_loss(const TransformerRun& run, const std::vector<Tensor>& parameters, int step,
                        std::vector<Values>* gradients) {
  const Heads a{size(run.sequence), size(run.batch), size(run.heads), size(run.kv_heads),
                size(run.hidden / run.heads)};
  const auto layers = size(run.layers), rows = a.sequence * a.batch, h = size(run.hidden);
  std::vector<Weights> weights(layers);
  std::vector<std::vector<Values>> d(layers);
  for (std::size_t l = 0; l < layers; ++l) {
    for (std::size_t k = 0; k < kinds; ++k) {
      const auto& stored = parameters[l * kinds + k].values;
      weights[l].w.push_back(k == out || k == down ? transposed(stored, stored.size() / h)
                                                   : stored);
      d[l].emplace_back(stored.size());
    }
  }
  const auto terms = static_cast<double>(run.microbatches) * static_cast<double>(rows * h);
  double loss = 0;
  for (std::int64_t m = 0; m < run.microbatches; ++m) {
    Values x(rows * h);
    fill(run.seed, "input." + std::to_string(step) + "." + std::to_string(m), 0, x);
    std::vector<Kept> kept(layers);
    for (std::size_t l = 0; l < layers; ++l) x = forward(a, weights[l], x, kept[l]);
    for (const double v : x) loss += v * v / terms;
    if (!gradients) continue;
    for (auto& v : x) v *= 2 / terms;
    for (std::size_t l = layers; l-- > 0;) x = backward(a, weights[l], kept[l], x, d[l]);
  }
  if (!gradients) return loss;
  gradients->clear();
  for (std::size_t l = 0; l < layers; ++l) {
    for (std::size_t k = 0; k < kinds; ++k) {
      gradients->push_back(k == out || k == down ? transposed(d[l][k], h) : d[l][k]);
    }
  }
  return loss;
}

Trained train(const TransformerRun& run) {
  return train_with_adam(transformer_parameters(run), run.steps, run.adam,
                         [&](const auto& p, int step, std::vector<Values>& d) {
                           return Loss{transformer_loss(run, p, step, &d)};
                         });
}

}  // namespace tidemark::reference
