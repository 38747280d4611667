#include "reports/numbers/compare_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "reports/numbers/difference.h"

namespace tidemark {
namespace {

constexpr std::size_t kMostFaults = 4;  // of a variant, in the text

constexpr const char* kModel =
    "model: |A - B| is at most (a + b) / (1 - max(a, b)) of the smaller of |A| and |B|: Euclidean "
    "norms, a shard of a tensor at a time (its norm at least its share of the whole tensor's), of "
    "losses a step at a time; for losses and parameters a "
    "and b times their condition. a and b are what each side is allowed from one double-precision "
    "reference R, |A - "
    "R| <= a |R| and |B - R| <= b |R| (parity/reference), and the triangle inequality does the "
    "rest. Nothing is fitted. An element alone is found where it is off by more than that part of "
    "its shard's norm.";

using Pair = std::pair<const NumbersLog*, const NumbersLog*>;

bool to_the_bit(const Pair& pair) {
  return pair.first->exact && pair.second->exact &&
         pair.first->arithmetic == pair.second->arithmetic;
}

std::string value(double number, const std::string& dtype) {
  return dtype == "F64" || dtype.empty() ? fmt::format("{}", number)
                                         : fmt::format("{}", static_cast<float>(number));
}

std::string place(const TensorDifference& each) {
  return fmt::format("{} {}", each.what == "loss" ? "step" : "element", each.element);
}

std::string fault(const TensorDifference& each, bool to_the_bit) {
  std::string out = fmt::format("rank {}, {}: ", each.rank, each.what);
  if (!each.unlike.empty()) return out + each.unlike;
  out += to_the_bit ? fmt::format("{} of its numbers differ", each.differ)
                    : fmt::format("{:.3g} of the smaller norm apart, not at most {:.3g}",
                                  each.distance, each.bound);
  return out + fmt::format("; furthest at {}: {} | {}, {:.0f} ULP", place(each),
                           value(each.a, each.dtype), value(each.b, each.dtype), each.ulps);
}

/// A variant's ranks, one after the other.
class Comparing {
 public:
  Comparing(bool bits_decide, const std::vector<Pair>& pairs)
      : ranks_(pairs.size()), bits_decide_(bits_decide) {
    for (const auto& [a, b] : pairs) {
      of_a_.add(*a);
      of_b_.add(*b);
    }
    for (const auto& [a, b] : pairs)
      for (const TensorDifference& each : differences(*a, *b, bits_decide_, of_a_, of_b_))
        take(each);
  }

  bool equal() const { return bits_ && faults_.empty(); }
  bool different() const { return !faults_.empty(); }
  /// True if nothing could be compared.
  bool open() const { return faults_.empty() && judged_ == 0; }

  VariantComparison result(const std::string& name) const {
    const std::string on = fmt::format("on {} rank{}", ranks_, ranks_ == 1 ? "" : "s");
    std::string summary = equal()       ? "the same bits " + on
                          : different() ? "DIFFERS " + on
                          : open()      ? "nothing can be held " + on
                                        : "within the model " + on;
    if (worst_ && !equal())
      summary +=
          fmt::format(": worst {} on rank {}: {:.3g} of {:.3g}, {:.0f} ULP at {}", worst_->what,
                      worst_->rank, worst_->distance, worst_->bound, worst_->ulps, place(*worst_));
    if (!equal())
      summary +=
          parts_at_ < 0 ? "; the same losses" : fmt::format("; losses part at step {}", parts_at_);
    if (!vacuous_.empty())
      summary +=
          fmt::format("; not held, by a bound of {:.3g}: {}", largest_bound_, *vacuous_.begin());
    if (vacuous_.size() > 1) summary += fmt::format(" and {} more", vacuous_.size() - 1);
    std::vector<std::string> faults = faults_;
    if (faults.size() > kMostFaults) {
      faults.resize(kMostFaults);
      faults.push_back(fmt::format("and {} more", faults_.size() - kMostFaults));
    }
    return {name, summary, faults};
  }

 private:
  void take(const TensorDifference& each) {
    bits_ = bits_ && each.bits;
    if (each.what == "loss" && each.first >= 0 && (parts_at_ < 0 || each.first < parts_at_))
      parts_at_ = each.first;
    const bool holds = bits_decide_ ? each.bits : each.share() <= 1;
    if (!bits_decide_ && each.says_nothing()) {
      vacuous_.insert(each.what);
      largest_bound_ = std::max(largest_bound_, each.bound);
      return;
    }
    ++judged_;
    if (!holds) faults_.push_back(fault(each, bits_decide_));
    if (!each.bits && (!worst_ || each.share() > worst_->share())) worst_ = each;
  }

  std::size_t ranks_;
  bool bits_decide_, bits_ = true;
  WholeNorms of_a_, of_b_;
  int judged_ = 0;  // tensors that a bound held, or the bits
  std::optional<TensorDifference> worst_;
  std::int64_t parts_at_ = -1;
  std::vector<std::string> faults_;
  std::set<std::string> vacuous_;
  double largest_bound_ = 0;
};

std::string model_of(const Pair& pair) {
  const auto &a = *pair.first, &b = *pair.second;
  const auto bound = [&](double of_a, double of_b) {
    return bound_of(a.tolerance * of_a, b.tolerance * of_b);
  };
  return fmt::format(
      "{}: {:.3g} (losses {:.3g}, parameters {:.3g}) from a = {:.3g}, b = {:.3g} and conditions "
      "{:.3g} of losses, {:.3g} of parameters: {}",
      a.trial, bound(1, 1), bound(a.loss_condition, b.loss_condition),
      bound(a.parameter_condition, b.parameter_condition), a.tolerance, b.tolerance,
      std::max(a.loss_condition, b.loss_condition),
      std::max(a.parameter_condition, b.parameter_condition), a.why);
}

}  // namespace

NumbersComparison compare_numbers(const std::vector<NumbersLog>& first,
                                  const std::vector<NumbersLog>& second) {
  NumbersComparison result;
  std::vector<std::pair<std::string, std::vector<Pair>>> variants;  // in the order of the first
  result.alone = pair_up(first, second, [&](const NumbersLog& log, const NumbersLog& other) {
    const std::string name = fmt::format("{}/{}/{}", log.trial, log.schedule, log.variant);
    auto group = std::ranges::find(variants, name, &decltype(variants)::value_type::first);
    if (group == variants.end()) group = variants.insert(group, {name, {}});
    group->second.emplace_back(&log, &other);
  });
  const auto once = [](std::vector<std::string>& lines, const std::string& line) {
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  };
  for (const auto& [name, pairs] : variants) {
    const auto& [a, b] = pairs.front();
    const bool bits = std::ranges::all_of(pairs, to_the_bit);
    once(result.models, fmt::format("A: {}: {}", a->device, a->arithmetic));
    once(result.models, fmt::format("B: {}: {}", b->device, b->arithmetic));
    once(result.models, bits ? "the same arithmetic: every bit is to be the same" : kModel);
    if (!bits && a->role == Role::control) {
      result.skipped.push_back(name + ": a control: nothing bounds what a wrong fix computes");
      continue;
    }
    if (!bits) once(result.models, model_of(pairs.front()));
    const Comparing comparison(bits, pairs);
    auto& count = comparison.equal()       ? result.equal
                  : comparison.different() ? result.different
                                           : result.within;
    if (comparison.open()) {
      result.skipped.push_back(name + ": " + comparison.result(name).summary);
      continue;
    }
    ++count;
    result.variants.push_back(comparison.result(name));
  }
  return result;
}

int NumbersComparison::exit_code() const {
  if (different > 0) return 1;
  return equal + within == 0 ? 4 : 0;
}

std::string NumbersComparison::text(const std::string& first, const std::string& second) const {
  std::string out = fmt::format("A: {}\nB: {}\n", first, second);
  for (const std::string& each : models) out += each + "\n";
  for (const VariantComparison& each : variants) {
    out += fmt::format("{}: {}\n", each.name, each.summary);
    for (const std::string& line : each.faults) out += "  " + line + "\n";
  }
  for (const std::string& each : skipped) out += fmt::format("skipped {}\n", each);
  for (const std::string& each : alone) out += fmt::format("in one alone: {}\n", each);
  return out + fmt::format(
                   "{} variants with the same bits, {} within the model, {} different, {} skipped, "
                   "{} in one alone\n",
                   equal, within, different, skipped.size(), alone.size());
}

}  // namespace tidemark
