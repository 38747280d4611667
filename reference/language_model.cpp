#include "reference/language_model.h"

#include <cmath>
#include <map>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

using Int = std::int64_t;

double& at(Values& v, Int i) { return v[static_cast<std::size_t>(i)]; }
double at(const Values& v, Int i) { return v[static_cast<std::size_t>(i)]; }
Values zeros(Int n) { return Values(static_cast<std::size_t>(n), 0.0); }
void add(Values& to, const Values& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

class Model {
 public:
  explicit Model(const LanguageModelRun& run) : run_(run), head_(run.hidden / run.heads) {
    const Int h = run.hidden, f = run.ffn, kv = head_ * run.kv_heads;
    make("embedding", run.vocabulary * h);
    for (Int l = 0; l < run.layers; ++l) {
      if (run.transformer) {
        make(name(l, "attention_norm"), h);
        make(name(l, "fc.wq"), h * h);
        make(name(l, "fc.wk"), kv * h);
        make(name(l, "fc.wv"), kv * h);
        make(name(l, "fc.wo"), h * h);
        make(name(l, "ffn_norm"), h);
        make(name(l, "fc.w1"), f * h);
        make(name(l, "fc.w3"), f * h);
        make(name(l, "fc.w2"), h * f);
      } else {
        make(name(l, "fc1"), f * h);
        make(name(l, "fc2"), h * f);
      }
    }
    make("norm", h);
    make("fc.head", run.vocabulary * h);
  }

  /// Mean loss; leaves the gradients in gradient().
  double step(int index) {
    const Int rows = run_.sequence * run_.sequences, h = run_.hidden, v = run_.vocabulary;
    const auto suffix = "." + std::to_string(index);
    const auto in = tokens(run_.seed, "inputs" + suffix, rows, v);
    const auto target = tokens(run_.seed, "targets" + suffix, rows, v);
    for (auto& g : gradients_) g.values.assign(g.values.size(), 0.0);

    Values x = zeros(rows * h);
    for (Int r = 0; r < rows; ++r)
      for (Int i = 0; i < h; ++i)
        at(x, r * h + i) = at(w("embedding"), in[static_cast<std::size_t>(r)] * h + i);
    std::vector<Values> inputs;
    for (Int l = 0; l < run_.layers; ++l) {
      inputs.push_back(x);
      x = run_.transformer ? block(x, l, nullptr) : mlp(x, l, nullptr);
    }
    const Values n = norm(x, "norm");
    const Values logits = product(n, w("fc.head"), h);
    double loss = 0;
    Values dlogits = zeros(rows * v);
    for (Int r = 0; r < rows; ++r) {
      double most = at(logits, r * v), sum = 0;
      for (Int i = 0; i < v; ++i) most = std::max(most, at(logits, r * v + i));
      for (Int i = 0; i < v; ++i) sum += std::exp(at(logits, r * v + i) - most);
      const Int t = target[static_cast<std::size_t>(r)];
      loss += (most + std::log(sum) - at(logits, r * v + t)) / static_cast<double>(rows);
      for (Int i = 0; i < v; ++i)
        at(dlogits, r * v + i) = (std::exp(at(logits, r * v + i) - most) / sum - (i == t ? 1 : 0)) /
                                 static_cast<double>(rows);
    }

    Values dn = zeros(rows * h);
    product_backward(dlogits, n, w("fc.head"), h, dn, g("fc.head"));
    Values dx = norm_backward(dn, x, "norm");
    for (Int l = run_.layers - 1; l >= 0; --l) {
      const Values& input = inputs[static_cast<std::size_t>(l)];
      run_.transformer ? block(input, l, &dx) : mlp(input, l, &dx);
    }
    for (Int r = 0; r < rows; ++r)
      for (Int i = 0; i < h; ++i)
        at(g("embedding"), in[static_cast<std::size_t>(r)] * h + i) += at(dx, r * h + i);
    return loss;
  }

  void descend() {
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      for (std::size_t i = 0; i < parameters_[p].values.size(); ++i)
        parameters_[p].values[i] -= kLanguageModelRate * gradients_[p].values[i];
  }

  const std::vector<Tensor>& gradients() const { return gradients_; }
  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  static std::string name(Int layer, const std::string& what) {
    return "layers." + std::to_string(layer) + "." + what;
  }
  void make(const std::string& name, Int count) {
    index_[name] = parameters_.size();
    parameters_.push_back({name, zeros(count)});
    gradients_.push_back({name, zeros(count)});
    fill(run_.seed, name, 0, parameters_.back().values);
  }
  Values& w(const std::string& name) { return parameters_[index_.at(name)].values; }
  Values& g(const std::string& name) { return gradients_[index_.at(name)].values; }

  Values norm(const Values& x, const std::string& weight) {
    const Int h = run_.hidden, rows = static_cast<Int>(x.size()) / h;
    Values y = zeros(rows * h);
    for (Int r = 0; r < rows; ++r) {
      const double scale = inverse_rms(x, r);
      for (Int i = 0; i < h; ++i) at(y, r * h + i) = at(x, r * h + i) * scale * at(w(weight), i);
    }
    return y;
  }
  double inverse_rms(const Values& x, Int row) const {
    double sum = 0;
    for (Int i = 0; i < run_.hidden; ++i)
      sum += at(x, row * run_.hidden + i) * at(x, row * run_.hidden + i);
    return 1 / std::sqrt(sum / static_cast<double>(run_.hidden) + run_.epsilon);
  }
  Values norm_backward(const Values& dy, const Values& x, const std::string& weight) {
    const Int h = run_.hidden, rows = static_cast<Int>(x.size()) / h;
    Values dx = zeros(rows * h);
    for (Int r = 0; r < rows; ++r) {
      const double scale = inverse_rms(x, r);
      double dot = 0;
      for (Int i = 0; i < h; ++i)
        dot += at(dy, r * h + i) * at(w(weight), i) * at(x, r * h + i) * scale;
      for (Int i = 0; i < h; ++i) {
        const double normal = at(x, r * h + i) * scale;
        at(g(weight), i) += at(dy, r * h + i) * normal;
        at(dx, r * h + i) =
            scale * (at(dy, r * h + i) * at(w(weight), i) - normal * dot / static_cast<double>(h));
      }
    }
    return dx;
  }

  /// out = softmax(q k^T / sqrt(d), causal) v by head; with `dout`, also the gradients.
  Values attention(const Values& q, const Values& k, const Values& v, const Values* dout,
                   Values& dq, Values& dk, Values& dv) const {
    const Int h = run_.hidden, s = run_.sequence, group = run_.heads / run_.kv_heads;
    const Int kv = head_ * run_.kv_heads;
    const double scale = 1 / std::sqrt(static_cast<double>(head_));
    Values out = zeros(static_cast<Int>(q.size()));
    for (Int b = 0; b < run_.sequences; ++b)
      for (Int a = 0; a < run_.heads; ++a)
        for (Int i = 0; i < s; ++i) {
          const auto at_q = [&](Int d) { return (b * s + i) * h + a * head_ + d; };
          const auto at_k = [&](Int j, Int d) { return (b * s + j) * kv + a / group * head_ + d; };
          Values p = zeros(i + 1);
          double most = -INFINITY, sum = 0;
          for (Int j = 0; j <= i; ++j) {
            for (Int d = 0; d < head_; ++d) at(p, j) += at(q, at_q(d)) * at(k, at_k(j, d)) * scale;
            most = std::max(most, at(p, j));
          }
          for (Int j = 0; j <= i; ++j) sum += at(p, j) = std::exp(at(p, j) - most);
          double mean = 0;
          Values dp = zeros(i + 1);
          for (Int j = 0; j <= i; ++j) {
            at(p, j) /= sum;
            for (Int d = 0; d < head_; ++d) {
              at(out, at_q(d)) += at(p, j) * at(v, at_k(j, d));
              if (!dout) continue;
              at(dp, j) += at(*dout, at_q(d)) * at(v, at_k(j, d));
              at(dv, at_k(j, d)) += at(p, j) * at(*dout, at_q(d));
            }
            mean += at(p, j) * at(dp, j);
          }
          for (Int j = 0; dout && j <= i; ++j) {
            const double ds = at(p, j) * (at(dp, j) - mean) * scale;
            for (Int d = 0; d < head_; ++d) {
              at(dq, at_q(d)) += ds * at(k, at_k(j, d));
              at(dk, at_k(j, d)) += ds * at(q, at_q(d));
            }
          }
        }
    return out;
  }

  /// Forward; with `dy`, backward too: *dy becomes the gradient of the input.
  Values block(const Values& x, Int l, Values* dy) {
    const Int h = run_.hidden, f = run_.ffn;
    const auto p = [&](const char* what) { return name(l, what); };
    const Values n = norm(x, p("attention_norm"));
    const Values q = product(n, w(p("fc.wq")), h), k = product(n, w(p("fc.wk")), h),
                 v = product(n, w(p("fc.wv")), h);
    Values dq = zeros(static_cast<Int>(q.size())), dk = zeros(static_cast<Int>(k.size())), dv = dk;
    const Values a = attention(q, k, v, nullptr, dq, dk, dv);
    Values y = product(a, w(p("fc.wo")), h);
    add(y, x);
    const Values m = norm(y, p("ffn_norm"));
    const Values gate = product(m, w(p("fc.w1")), h), up = product(m, w(p("fc.w3")), h);
    Values both = gate;
    for (std::size_t i = 0; i < both.size(); ++i) both[i] *= up[i] / (1 + std::exp(-gate[i]));
    Values z = product(both, w(p("fc.w2")), f);
    add(z, y);
    if (!dy) return z;

    Values dboth = zeros(static_cast<Int>(both.size()));
    product_backward(*dy, both, w(p("fc.w2")), f, dboth, g(p("fc.w2")));
    Values dgate = dboth, dup = dboth;
    for (std::size_t i = 0; i < both.size(); ++i) {
      const double sigmoid = 1 / (1 + std::exp(-gate[i]));
      dup[i] *= gate[i] * sigmoid;
      dgate[i] *= up[i] * sigmoid * (1 + gate[i] * (1 - sigmoid));
    }
    Values dm = zeros(static_cast<Int>(m.size()));
    product_backward(dgate, m, w(p("fc.w1")), h, dm, g(p("fc.w1")));
    product_backward(dup, m, w(p("fc.w3")), h, dm, g(p("fc.w3")));
    add(*dy, norm_backward(dm, y, p("ffn_norm")));
    Values da = zeros(static_cast<Int>(a.size()));
    product_backward(*dy, a, w(p("fc.wo")), h, da, g(p("fc.wo")));
    attention(q, k, v, &da, dq, dk, dv);
    Values dn = zeros(static_cast<Int>(n.size()));
    product_backward(dq, n, w(p("fc.wq")), h, dn, g(p("fc.wq")));
    product_backward(dk, n, w(p("fc.wk")), h, dn, g(p("fc.wk")));
    product_backward(dv, n, w(p("fc.wv")), h, dn, g(p("fc.wv")));
    add(*dy, norm_backward(dn, x, p("attention_norm")));
    return z;
  }

  Values mlp(const Values& x, Int l, Values* dy) {
    const Int h = run_.hidden, f = run_.ffn;
    const Values wide = product(x, w(name(l, "fc1")), h);
    const auto cumulative = [](double t) { return 0.5 * std::erfc(-t / std::sqrt(2.0)); };
    Values active = wide;
    for (double& t : active) t *= cumulative(t);
    Values z = product(active, w(name(l, "fc2")), f);
    add(z, x);
    if (!dy) return z;
    Values dwide = zeros(static_cast<Int>(wide.size()));
    product_backward(*dy, active, w(name(l, "fc2")), f, dwide, g(name(l, "fc2")));
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const double t = wide[i];
      dwide[i] *= cumulative(t) + t * std::exp(-t * t / 2) / std::sqrt(2 * std::acos(-1.0));
    }
    product_backward(dwide, x, w(name(l, "fc1")), h, *dy, g(name(l, "fc1")));
    return z;
  }

  const LanguageModelRun run_;
  const Int head_;
  std::map<std::string, std::size_t> index_;
  std::vector<Tensor> parameters_, gradients_;
};

}  // namespace

std::vector<std::int64_t> tokens(std::uint64_t seed, const std::string& name, std::int64_t count,
                                 std::int64_t vocabulary) {
  Values values = zeros(count);
  fill(seed, name, 0, values);
  std::vector<std::int64_t> result;
  // 128 values, spread over the vocabulary.
  for (const double value : values)
    result.push_back((static_cast<Int>(64 * value) + 64) * 7919 % vocabulary);
  return result;
}

Trained train(const LanguageModelRun& run) {
  Model model(run);
  Trained result;
  for (int i = 0; i < run.steps; ++i) {
    result.loss.push_back(model.step(i));
    if (i == 0) result.gradients = model.gradients();
    model.descend();
  }
  result.parameters = model.parameters();
  return result;
}

}  // namespace tidemark::reference
