#include "reports/numbers/difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace tidemark {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

double relative(double distance, double scale) {
  if (distance == 0) return 0;
  const double value = distance / scale;
  return std::isnan(value) ? kFar : value;
}

/// Takes in an element of both; what is not a number is infinitely far from everything.
struct Apart {
  TensorDifference& out;
  double furthest = -1;

  double operator()(std::int64_t element, double a, double b, bool same_bits, bool bits_decide) {
    const bool settled = same_bits && (bits_decide || std::isfinite(a));
    double apart = settled ? 0 : std::abs(a - b);
    if (std::isnan(apart)) apart = kFar;
    if (!same_bits) {
      out.bits = false;
      if (out.differ++ == 0) out.first = element;
    }
    if (apart > furthest && !(same_bits && settled)) {
      furthest = apart;
      out.element = element;
      out.a = a;
      out.b = b;
    }
    return apart;
  }
};

TensorDifference losses(const NumbersLog& a, const NumbersLog& b, bool bits_decide) {
  TensorDifference out;
  out.what = "loss";
  out.dtype = "F32";  // what a program says its loss in
  out.bound = bound_of(a.tolerance * a.loss_condition, b.tolerance * b.loss_condition);
  if (a.loss.size() != b.loss.size()) {
    out.bits = false;
    out.unlike = fmt::format("{} steps | {} steps", a.loss.size(), b.loss.size());
    return out;
  }
  Apart apart{out};
  for (std::size_t i = 0; i < a.loss.size(); ++i) {
    const double x = a.loss[i], y = b.loss[i];
    const bool same = std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
    const double d = apart(static_cast<std::int64_t>(i), x, y, same, bits_decide);
    out.distance = std::max(out.distance, relative(d, std::min(std::abs(x), std::abs(y))));
  }
  out.ulps = ulps_apart(out.a, out.b, out.dtype);
  return out;
}

/// The least that |A| and |B| of a shard count as.
struct Shares {
  double a = 0, b = 0;
};

void elements(const ShardNumbers& a, const ShardNumbers& b, bool bits_decide, Shares least,
              TensorDifference& out) {
  const auto each = static_cast<std::int64_t>(a.bytes.size()) / a.size();
  const std::string_view x = a.bytes, y = b.bytes;
  double squares = 0, of_a = 0, of_b = 0;
  Apart apart{out};
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const auto at = static_cast<std::size_t>(i * each), length = static_cast<std::size_t>(each);
    const double d =
        apart(a.offset + i, a[i], b[i], x.substr(at, length) == y.substr(at, length), bits_decide);
    squares += d * d;
    of_a += a[i] * a[i];
    of_b += b[i] * b[i];
  }
  out.distance = relative(std::sqrt(squares), std::min(std::max(std::sqrt(of_a), least.a),
                                                       std::max(std::sqrt(of_b), least.b)));
  out.ulps = ulps_apart(out.a, out.b, out.dtype);
}

TensorDifference tensor(const std::string& what, const ShardNumbers* a, const ShardNumbers* b,
                        bool bits_decide, Shares least) {
  TensorDifference out;
  out.what = what;
  if (a == nullptr || b == nullptr) {
    out.unlike = a == nullptr ? "missing | there" : "there | missing";
  } else if (a->dtype != b->dtype) {
    out.unlike = fmt::format("{} | {}", a->dtype, b->dtype);
  } else if (a->shape != b->shape) {
    out.unlike = fmt::format("[{}] | [{}]", fmt::join(a->shape, ", "), fmt::join(b->shape, ", "));
  } else {
    out.dtype = a->dtype;
    elements(*a, *b, bits_decide, least, out);
  }
  if (!out.unlike.empty()) out.bits = false;
  return out;
}

using Places = std::map<std::pair<std::string, std::int64_t>, const ShardNumbers*>;

Places places(const std::vector<ShardNumbers>& shards) {
  Places all;
  for (const ShardNumbers& each : shards)
    if (each.size() > 0) all[{each.name, each.offset}] = &each;
  return all;
}

}  // namespace

double bound_of(double a, double b) {
  const double larger = std::max(a, b);
  return larger < 1 ? (a + b) / (1 - larger) : kFar;
}

bool TensorDifference::says_nothing() const {
  return unlike.empty() && !bits && bound >= kSaysNothing && std::isfinite(distance);
}

double TensorDifference::share() const {
  if (!unlike.empty()) return kFar;
  if (distance == 0) return 0;
  return bound > 0 ? distance / bound : kFar;
}

void WholeNorms::add(const NumbersLog& log) {
  const auto take = [&](const char* what, const std::vector<ShardNumbers>& shards) {
    for (const ShardNumbers& shard : shards) {
      Whole& whole = all_[fmt::format("{} of {}", what, shard.name)];
      if (shard.size() == 0 || !whole.offsets.insert(shard.offset).second) continue;
      for (std::int64_t i = 0; i < shard.size(); ++i)
        if (std::isfinite(shard[i])) whole.squares += shard[i] * shard[i];
      whole.elements += shard.size();
    }
  };
  take("gradients", log.gradients);
  take("parameters", log.parameters);
}

double WholeNorms::share(const std::string& tensor, std::int64_t elements) const {
  const auto norm = all_.find(tensor);
  if (norm == all_.end() || norm->second.elements == 0) return 0;
  return std::sqrt(norm->second.squares * static_cast<double>(elements) /
                   static_cast<double>(norm->second.elements));
}

std::vector<TensorDifference> differences(const NumbersLog& a, const NumbersLog& b,
                                          bool bits_decide, const WholeNorms& of_a,
                                          const WholeNorms& of_b) {
  std::vector<TensorDifference> all{losses(a, b, bits_decide)};
  const auto part = [&](const char* what, const std::vector<ShardNumbers>& mine,
                        const std::vector<ShardNumbers>& theirs, double bound) {
    const Places ours = places(mine), others = places(theirs);
    const auto add = [&](const auto& place, const ShardNumbers* one, const ShardNumbers* two) {
      const std::string name = fmt::format("{} of {}", what, place.first);
      const std::int64_t size = one != nullptr ? one->size() : two->size();
      all.push_back(
          tensor(name, one, two, bits_decide, {of_a.share(name, size), of_b.share(name, size)}));
      all.back().bound = bound;
    };
    for (const auto& [place, shard] : ours) {
      const auto other = others.find(place);
      add(place, shard, other == others.end() ? nullptr : other->second);
    }
    for (const auto& [place, shard] : others)
      if (!ours.contains(place)) add(place, nullptr, shard);
  };
  part("gradients", a.gradients, b.gradients, bound_of(a.tolerance, b.tolerance));
  part("parameters", a.parameters, b.parameters,
       bound_of(a.tolerance * a.parameter_condition, b.tolerance * b.parameter_condition));
  for (TensorDifference& each : all) each.rank = a.rank;
  return all;
}

}  // namespace tidemark
