#include "reference/operators.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace tidemark::reference {
namespace {

constexpr double kEpsilon = 1e-5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The normal distribution's, up to x.
double cumulative(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// Place of the first element of a head of a token's, of `of` heads.
std::size_t place(const Heads& a, std::size_t s, std::size_t b, std::size_t n, std::size_t of) {
  const auto row = a.sequence_slower ? s * a.batch + b : b * a.sequence + s;
  return (row * of + n) * a.head;
}

/// The softmax's weights of the query at `here` over the keys at `there`.
Values attention_weights(std::size_t head, const Values& q, std::size_t here, const Values& k,
                         const std::vector<std::size_t>& there) {
  Values p(there.size());
  double largest = -INFINITY, sum = 0;
  for (std::size_t t = 0; t < p.size(); ++t) {
    for (std::size_t j = 0; j < head; ++j) p[t] += q[here + j] * k[there[t] + j];
    p[t] /= std::sqrt(static_cast<double>(head));
    largest = std::max(largest, p[t]);
  }
  for (auto& v : p) sum += v = std::exp(v - largest);
  for (auto& v : p) v /= sum;
  return p;
}

/// each(place of the query, places of the keys up to it, weights)
template <class Each>
void for_each_query(const Heads& a, const Values& q, const Values& k, Each each) {
  for (std::size_t s = 0; s < a.sequence; ++s)
    for (std::size_t b = 0; b < a.batch; ++b)
      for (std::size_t n = 0; n < a.heads; ++n) {
        const auto here = place(a, s, b, n, a.heads);
        std::vector<std::size_t> there;
        for (std::size_t t = 0; t <= s; ++t)
          there.push_back(place(a, t, b, n * a.kv_heads / a.heads, a.kv_heads));
        each(here, there, attention_weights(a.head, q, here, k, there));
      }
}

}  // namespace

void Tape::add(Values& to, const Values& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

void Tape::backward() {
  for (; !backwards_.empty(); backwards_.pop_back()) backwards_.back()();
}

Operand Tape::leaf(Values value, std::size_t columns) {
  Values gradient(value.size());
  return &variables_.emplace_back(columns, std::move(value), std::move(gradient));
}

Operand Tape::product(Operand x, Operand w, Stored stored) {
  const auto in = x->columns, rows = x->value.size() / in, out = w->value.size() / in;
  const auto by_output = stored == Stored::output_first ? in : 1,
             by_input = stored == Stored::output_first ? 1 : out;
  const Operand y = leaf(Values(rows * out), out);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i)
        y->value[r * out + o] += x->value[r * in + i] * w->value[o * by_output + i * by_input];
  backwards_.push_back([=] {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t o = 0; o < out; ++o) {
        const double d = y->gradient[r * out + o];
        for (std::size_t i = 0; i < in; ++i) {
          const auto at = o * by_output + i * by_input;
          x->gradient[r * in + i] += d * w->value[at];
          w->gradient[at] += d * x->value[r * in + i];
        }
      }
  });
  return y;
}

Operand Tape::rms_norm(Operand x, Operand weight) {
  const auto h = x->columns, rows = x->value.size() / h;
  const auto wide = static_cast<double>(h);
  const Operand y = leaf(Values(x->value.size()), h);
  Values means(rows);  // of the squares
  for (std::size_t r = 0; r < rows; ++r) {
    double square = 0;
    for (std::size_t j = r * h; j < (r + 1) * h; ++j) square += x->value[j] * x->value[j];
    means[r] = square / wide + kEpsilon;
    const double scale = 1 / std::sqrt(means[r]);
    for (std::size_t j = 0; j < h; ++j)
      y->value[r * h + j] = x->value[r * h + j] * scale * weight->value[j];
  }
  backwards_.push_back([=] {
    for (std::size_t r = 0; r < rows; ++r) {
      const double* row = &x->value[r * h];
      const double* dy = &y->gradient[r * h];
      const double scale = 1 / std::sqrt(means[r]);
      double dot = 0;
      for (std::size_t j = 0; j < h; ++j) dot += dy[j] * weight->value[j] * row[j];
      for (std::size_t j = 0; j < h; ++j) {
        weight->gradient[j] += dy[j] * row[j] * scale;
        x->gradient[r * h + j] +=
            scale * (dy[j] * weight->value[j] - row[j] * dot / (means[r] * wide));
      }
    }
  });
  return y;
}

Operand Tape::layer_norm(Operand x, Operand weight) {
  const auto h = x->columns, rows = x->value.size() / h;
  const auto wide = static_cast<double>(h);
  const Operand y = leaf(Values(x->value.size()), h);
  Values normalised(x->value.size()), scale(rows);  // scale: 1 / standard deviation
  for (std::size_t r = 0; r < rows; ++r) {
    const double* row = &x->value[r * h];
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < h; ++j) mean += row[j];
    mean /= wide;
    for (std::size_t j = 0; j < h; ++j) variance += (row[j] - mean) * (row[j] - mean);
    scale[r] = 1 / std::sqrt(variance / wide + kEpsilon);
    for (std::size_t j = 0; j < h; ++j) {
      normalised[r * h + j] = (row[j] - mean) * scale[r];
      y->value[r * h + j] = normalised[r * h + j] * weight->value[j];
    }
  }
  backwards_.push_back([=] {
    for (std::size_t r = 0; r < rows; ++r) {
      const double* dy = &y->gradient[r * h];
      const double* normal = &normalised[r * h];
      double sum = 0, dot = 0;
      for (std::size_t j = 0; j < h; ++j) {
        weight->gradient[j] += dy[j] * normal[j];
        sum += dy[j] * weight->value[j];
        dot += dy[j] * weight->value[j] * normal[j];
      }
      sum /= wide;
      dot /= wide;
      for (std::size_t j = 0; j < h; ++j)
        x->gradient[r * h + j] += scale[r] * (dy[j] * weight->value[j] - sum - normal[j] * dot);
    }
  });
  return y;
}

Operand Tape::gelu(Operand x) {
  const Operand y = leaf(x->value, x->columns);
  for (auto& v : y->value) v *= cumulative(v);
  backwards_.push_back([=] {
    for (std::size_t i = 0; i < y->value.size(); ++i) {
      const double v = x->value[i];
      const double density =
          std::exp(-0.5 * v * v) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      x->gradient[i] += y->gradient[i] * (cumulative(v) + v * density);
    }
  });
  return y;
}

Operand Tape::swiglu(Operand gate, Operand up) {
  const Operand y = leaf(Values(gate->value.size()), gate->columns);
  for (std::size_t i = 0; i < y->value.size(); ++i)
    y->value[i] = gate->value[i] * sigmoid(gate->value[i]) * up->value[i];
  backwards_.push_back([=] {
    for (std::size_t i = 0; i < y->value.size(); ++i) {
      const double g = gate->value[i], s = sigmoid(g), dy = y->gradient[i];
      up->gradient[i] += dy * g * s;
      gate->gradient[i] += dy * up->value[i] * s * (1 + g * (1 - s));
    }
  });
  return y;
}

Operand Tape::attention(const Heads& a, Operand q, Operand k, Operand v) {
  const Operand y = leaf(Values(q->value.size()), q->columns);
  for_each_query(a, q->value, k->value, [&](auto here, const auto& there, const Values& p) {
    for (std::size_t t = 0; t < p.size(); ++t)
      for (std::size_t j = 0; j < a.head; ++j) y->value[here + j] += p[t] * v->value[there[t] + j];
  });
  backwards_.push_back([=] {
    const double scale = 1 / std::sqrt(static_cast<double>(a.head));
    for_each_query(a, q->value, k->value, [&](auto here, const auto& there, const Values& p) {
      Values dp(p.size());
      double mean = 0;
      for (std::size_t t = 0; t < p.size(); ++t) {
        for (std::size_t j = 0; j < a.head; ++j) {
          dp[t] += y->gradient[here + j] * v->value[there[t] + j];
          v->gradient[there[t] + j] += p[t] * y->gradient[here + j];
        }
        mean += p[t] * dp[t];
      }
      for (std::size_t t = 0; t < p.size(); ++t) {
        const double d = p[t] * (dp[t] - mean) * scale;
        for (std::size_t j = 0; j < a.head; ++j) {
          q->gradient[here + j] += d * k->value[there[t] + j];
          k->gradient[there[t] + j] += d * q->value[here + j];
        }
      }
    });
  });
  return y;
}

Operand Tape::lookup(Operand table, const std::vector<std::size_t>& rows, std::size_t columns) {
  const Operand y = leaf(Values(rows.size() * columns), columns);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i < columns; ++i)
      y->value[r * columns + i] = table->value[rows[r] * columns + i];
  backwards_.push_back([=] {
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t i = 0; i < columns; ++i)
        table->gradient[rows[r] * columns + i] += y->gradient[r * columns + i];
  });
  return y;
}

}  // namespace tidemark::reference
