#include "harness/judge/parity.h"

#include <ATen/ATen.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/record/number.h"

namespace tidemark {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

at::Tensor flat_double(const at::Tensor& values) { return values.reshape({-1}).to(at::kDouble); }

/// Takes in a relative difference, and keeps the largest in parts of what is allowed.
void take(Difference& result, double relative, const Allowed& allowed, std::size_t at,
          const std::string& where) {
  if (std::isnan(relative)) relative = kInfinite;
  const double here = at < allowed.tolerance.size() ? allowed.tolerance[at] : 0;
  const auto parts = [&](double difference, double tolerance) {
    if (allowed.tolerance.empty() || difference == 0) return difference;
    return tolerance > 0 ? difference / tolerance : kInfinite;
  };
  if (!result.worst.empty() && parts(relative, here) <= parts(result.relative, result.allowed))
    return;
  result.relative = relative;
  result.allowed = here;
  result.worst = where;
}

}  // namespace

const Shard* missing_from(const std::vector<Shard>& all, const std::vector<Shard>& shards) {
  for (const Shard& each : shards)
    if (each.values.numel() > 0 && covering(all, each) == nullptr) return &each;
  return nullptr;
}

std::int64_t elements_of(const std::vector<Shard>& shards) {
  std::int64_t all = 0;
  for (const Shard& each : shards) all += each.values.numel();
  return all;
}

const Shard* covering(const std::vector<Shard>& all, const Shard& part) {
  for (const Shard& each : all)
    if (each.name == part.name && each.offset <= part.offset &&
        part.offset + part.values.numel() <= each.offset + each.values.numel())
      return &each;
  return nullptr;
}

at::Tensor elements(const Shard& whole, const Shard& part) {
  return whole.values.reshape({-1})
      .narrow(0, part.offset - whole.offset, part.values.numel())
      .contiguous();
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

double ulp_distance(double a, double b, at::ScalarType type) {
  if (a == b) return 0;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kInfinite;
  switch (type) {
    case at::kFloat:
      return steps_between<std::int32_t>(static_cast<float>(a), static_cast<float>(b));
    case at::kBFloat16:
      return steps_between<std::int16_t>(c10::BFloat16(static_cast<float>(a)).x,
                                         c10::BFloat16(static_cast<float>(b)).x);
    case at::kHalf:
      return steps_between<std::int16_t>(c10::convert<c10::Half>(static_cast<float>(a)).x,
                                         c10::convert<c10::Half>(static_cast<float>(b)).x);
    default:
      return steps_between<std::int64_t>(a, b);
  }
}

Difference compare_losses(const std::vector<LossPoint>& a, const std::vector<LossPoint>& b,
                          const Allowed& allowed) {
  Difference result;
  auto differ = [&](const std::string& where, double ulps) {
    if (result.equal) {
      result.where = where;
      result.ulps = ulps;
    }
    result.equal = false;
  };
  const auto incomparable = [&](const std::string& where) {
    differ(where, kInfinite);
    result.relative = kInfinite;
    return result;
  };
  if (a.size() != b.size() || a.empty())
    return incomparable("the number of losses (" + std::to_string(a.size()) + " against " +
                        std::to_string(b.size()) + ")");
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].value || !b[i].value)
      return incomparable("step " + std::to_string(a[i].step) + " has no value");
    const double x = *a[i].value, y = *b[i].value;
    if (std::bit_cast<std::uint64_t>(x) != std::bit_cast<std::uint64_t>(y))
      differ("loss at step " + std::to_string(a[i].step), ulp_distance(x, y, at::kFloat));
    const double error =
        x == y ? 0 : std::abs(x - y) / std::max(std::abs(y), std::numeric_limits<double>::min());
    take(result, error, allowed, i, "step " + std::to_string(a[i].step));
    ++result.compared;
  }
  return result;
}

Difference compare_shards(const std::string& what, const std::vector<Shard>& a,
                          const std::vector<Shard>& b, const Allowed& allowed) {
  Difference result;
  auto fail = [&](const std::string& where) {
    if (result.equal) {
      result.where = where;
      result.ulps = kInfinite;
    }
    result.equal = false;
    result.relative = kInfinite;
    result.worst = where;
  };
  if (a.empty()) fail("no " + what + " at all");
  for (const auto& mine : a) {
    const std::int64_t size = mine.values.numel();
    if (size == 0) continue;
    const Shard* other = covering(b, mine);
    if (other == nullptr) {
      fail(what + " of " + mine.name + " is missing on the other side");
      continue;
    }
    const auto index = static_cast<std::size_t>(other - b.data());
    result.compared += size;
    at::Tensor x = mine.values.reshape({-1}).contiguous();
    at::Tensor y = elements(*other, mine);
    if (same_bits(x, y)) {
      take(result, 0, allowed, index, mine.name);
      continue;
    }
    const bool same_type = x.scalar_type() == y.scalar_type();
    x = flat_double(x);
    y = flat_double(y);
    if (same_type && at::eq(x, y).all().item<bool>()) {  // zeros with other signs
      take(result, 0, allowed, index, mine.name);
      continue;
    }
    at::Tensor apart = x - y, part = y, all = flat_double(other->values);
    if (allowed.scales != nullptr && !allowed.scales->empty()) {
      const Shard& scale = allowed.scales->at(index);
      const at::Tensor own = elements(scale, mine);
      apart = apart / own;
      part = part / own;
      all = all / flat_double(scale.values);
    }
    const double error = apart.norm().item<double>();
    // A shard of small elements has its share of what the whole tensor's arithmetic is off by.
    const double share =
        std::sqrt(static_cast<double>(size) / static_cast<double>(other->values.numel()));
    const double scale = std::max(part.norm().item<double>(), share * all.norm().item<double>());
    const double relative =
        error == 0 ? 0 : error / std::max(scale, std::numeric_limits<double>::min());
    if (result.equal) {
      auto same = at::eq(x, y).logical_or(at::isnan(x).logical_and(at::isnan(y)));
      if (!same.all().item<bool>()) {
        auto element = same.logical_not().to(at::kByte).argmax().item<std::int64_t>();
        result.where =
            what + " of " + mine.name + " [element " + std::to_string(mine.offset + element) + "]";
        result.ulps = ulp_distance(x[element].item<double>(), y[element].item<double>(),
                                   mine.values.scalar_type());
      } else {
        result.where = what + " of " + mine.name + " (equal values, other bits or another type)";
      }
      result.equal = false;
    }
    take(result, relative, allowed, index, mine.name);
  }
  return result;
}

}  // namespace tidemark
