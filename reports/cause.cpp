#include "reports/cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "harness/record/scan.h"
#include "harness/record/units.h"
#include "harness/record/verdict_kind.h"

namespace tidemark {
namespace {

constexpr std::size_t kBrief = 200;  // characters of a text that is not known

/// "400.00 MiB" as "400 MiB".
std::string plain_size(std::string_view size) {
  std::string out(size);
  if (const auto at = out.find(".00 "); at != std::string::npos) out.erase(at, 3);
  return out;
}

/// Takes "400.00 MiB"; "" where there is none.
std::string_view take_size(Scan& scan) {
  const std::string_view from = scan.rest();
  const std::string_view number = scan.all_of("0123456789.");
  if (number.empty() || !scan.take(" ")) return "";
  const std::string_view unit = scan.none_of(" .,;:()\n");
  return unit.empty() ? "" : from.substr(0, number.size() + 1 + unit.size());
}

/// "8.00 GiB" of "8.00 GiB allowed"; "" where there is none. A limit, if ranks share a GPU or a
/// program asked for a part of it.
std::string_view allowed_in(std::string_view text) {
  for (std::size_t at = 0; (at = text.find(" allowed", at)) != std::string_view::npos; ++at) {
    const std::size_t unit = text.rfind(' ', at - 1);
    if (at == 0 || unit == std::string_view::npos || unit == 0) continue;
    const std::size_t before = text.find_last_not_of("0123456789.", unit - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (begin < unit) return text.substr(begin, at - begin);
  }
  return "";
}

/// PyTorch's paragraph as what was asked, what was free, of how much.
std::string brief_text(const std::string& text) {
  constexpr std::string_view kAsked = "out of memory. Tried to allocate ";
  for (std::size_t at = 0; (at = text.find(kAsked, at)) != std::string::npos; ++at) {
    Scan scan(std::string_view(text).substr(at + kAsked.size()));
    const std::string_view asked = take_size(scan);
    if (asked.empty() || asked.size() > kBrief || !scan.take(".")) continue;
    std::string free;
    if (scan.take(" GPU ") && !scan.all_of(kDecimal).empty() &&
        scan.take(" has a total capacity of ")) {
      const std::string_view whole = take_size(scan);
      const bool of_which = scan.take(" of which ");
      const std::string_view left = take_size(scan);
      if (of_which && !left.empty() && left.size() + whole.size() < kBrief && scan.take(" is free"))
        free = fmt::format("; {} free of {}", plain_size(left), plain_size(whole));
    }
    const std::string_view allowed = allowed_in(text);
    return fmt::format("out of memory: asked {}{}{}", plain_size(asked), free,
                       allowed.empty() || allowed.size() > kBrief
                           ? ""
                           : fmt::format("; {} allowed", plain_size(allowed)));
  }
  if (text.size() <= kBrief) return text;
  return text.substr(0, text.rfind(' ', kBrief)) + " ...";
}

/// "step 1, after all_gather 19" of "a/b/c two_buffers, step 1, after all_gather 19 of ...": the
/// variant is named beside it.
std::string brief_place(const std::string& place) {
  Scan scan(place);
  scan.none_of(",");
  if (!scan.take(", step ")) return "";
  const std::string_view step = scan.all_of(kDecimal);
  if (step.empty()) return "";
  std::string out = fmt::format("step {}", step);
  for (const std::string_view how : {", after ", ", waiting in "}) {
    if (!scan.take(how)) continue;
    const std::string_view call = scan.none_of(" \t\n");
    if (call.empty()) return out;
    out += fmt::format("{}{}", how, call);
    if (scan.take(" "))
      if (const std::string_view number = scan.all_of(kDecimal); !number.empty())
        out += fmt::format(" {}", number);
    return out;
  }
  return out;
}

/// Cause of a failed verdict, and the variant that it lies in.
struct Reason {
  std::string variant, why;
};

/// Memory verdicts of a variant whose allocator had to retry fail for that, savings also where the
/// baseline's had to; otherwise their text describes the figure and is no cause. Else what the
/// verdict says itself.
Reason reason(const TrialRecord& trial, const Verdict& verdict) {
  const VerdictKind kind = kind_of(verdict);
  if (!is_of_memory(kind)) return {verdict.variant, verdict.why};
  if (const VariantRecord* own = variant_in(trial, verdict.variant))
    if (const std::string why = shaped_by_capacity(*own); !why.empty())
      return {verdict.variant, why};
  if (kind == VerdictKind::saving)
    for (const VariantRecord& one : trial.variants)
      if (one.role == Role::baseline && !one.ranks.empty())
        if (const std::string why = shaped_by_capacity(one); !why.empty()) return {one.name, why};
  return {verdict.variant, ""};
}

}  // namespace

std::string brief_error(const VariantRecord& variant) {
  struct Group {
    std::string text, place;
    std::vector<int> ranks;
  };
  const auto by_partner = [](const RankError& one) { return one.kind == ErrorKind::partner; };
  const bool all_by_partners = std::ranges::all_of(variant.errors, by_partner);
  std::vector<Group> groups;
  std::vector<int> followed;
  for (const RankError& one : variant.errors) {
    if (by_partner(one) && !all_by_partners) {
      followed.push_back(one.rank);
      continue;
    }
    const std::string text = brief_text(one.text);
    auto known = std::ranges::find(groups, text, &Group::text);
    if (known == groups.end())
      known = groups.insert(groups.end(), {text, brief_place(one.place), {}});
    known->ranks.push_back(one.rank);
  }
  if (groups.empty()) return brief_text(variant.error);
  std::string out;
  for (const Group& group : groups) {
    out += (out.empty() ? "" : "; ") + ranks_text(group.ranks) +
           (group.ranks.size() > 1 ? " alike: " : ": ") + group.text;
    if (!group.place.empty()) out += " (" + group.place + ")";
  }
  if (!followed.empty()) out += "; " + ranks_text(followed) + " ended with it";
  return out;
}

bool ran_out_of_memory(const VariantRecord& variant) {
  return std::ranges::any_of(
      variant.errors, [](const RankError& one) { return one.kind == ErrorKind::out_of_memory; });
}

std::string all_out_of_memory(const Report& report) {
  std::int64_t count = 0;
  Bytes capacity = report.run.capacity_bytes, needs = 0;
  for (const TrialRecord& trial : report.trials) {
    needs = std::max(needs, trial.needs.value_or(0));
    for (const VariantRecord& variant : trial.variants) {
      if (!variant.not_run.empty()) continue;
      if (!ran_out_of_memory(variant)) return "";
      ++count;
    }
    if (capacity == 0) capacity = trial.capacity;
  }
  if (count == 0) return "";
  return plural(count, "variant") + " ran out of memory" +
         (capacity > 0 ? ": " + bytes_text(capacity) + " are too few" : "") +
         (needs > capacity ? fmt::format("; their forms say at least {}", bytes_text(needs)) : "");
}

std::string shaped_by_capacity(const VariantRecord& variant) {
  std::int64_t most = 0;
  std::vector<int> ranks;
  for (const RankRecord& rank : variant.ranks) {
    if (rank.counters.num_alloc_retries == 0) continue;
    most = std::max(most, rank.counters.num_alloc_retries);
    ranks.push_back(rank.rank);
  }
  if (ranks.empty()) return "";
  return fmt::format(
      "the capacity affected this run: the allocator freed its cached memory and tried again {} on "
      "{}",
      most == 1 ? "once" : fmt::format("{} times", most), ranks_text(ranks));
}

std::vector<Breakdown> breakdowns(const Report& report) {
  std::vector<Breakdown> out;
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const TrialRecord& trial : report.trials) {
    for (const VariantRecord& variant : trial.variants) {
      if (variant.error.empty()) continue;
      const std::string brief = brief_error(variant);
      auto same = std::ranges::find_if(out, [&](const Breakdown& known) {
        const bool one_more = known.schedules == std::vector{trial.schedule} ||
                              known.variants == std::vector{variant.name};
        return one_more && known.brief == brief && known.trial->scenario == trial.scenario &&
               known.trial->size == trial.size && known.trial->mode == trial.mode &&
               known.trial->params == trial.params;
      });
      if (same == out.end()) same = out.insert(out.end(), {&trial, &variant, {}, {}, brief});
      add(same->schedules, trial.schedule);
      add(same->variants, variant.name);
    }
  }
  return out;
}

std::vector<FailureGroup> failure_groups(const Report& report) {
  std::vector<FailureGroup> out;
  std::map<std::array<std::string, 5>, std::size_t> places;
  for (Failure& failure : failures(report)) {
    const TrialRecord& trial = *failure.trial;
    const Verdict& verdict = *failure.verdict;
    const VariantRecord* own = variant_in(trial, verdict.variant);
    if (own != nullptr && !own->error.empty()) continue;  // told as a breakdown
    Reason cause = reason(trial, verdict);
    // Without a reason those of one kind are likely to have one cause.
    const std::string kind =
        cause.why.empty() ? verdict.name.substr(0, verdict.name.find('/')) : std::string();
    const auto [at, fresh] = places.try_emplace(
        {trial.scenario, trial.size, cause.variant, cause.why, kind}, out.size());
    if (fresh) out.push_back({std::move(cause.variant), std::move(cause.why), {}});
    out[at->second].failures.push_back(std::move(failure));
  }
  return out;
}

std::string common_cause(const Report& report) {
  const std::vector<FailureGroup> groups = failure_groups(report);
  const std::vector<Breakdown> broken = breakdowns(report);
  if (groups.size() == 1 && broken.empty() && !groups[0].why.empty())
    return groups[0].variant + ": " + groups[0].why;
  if (groups.empty() && broken.size() == 1)
    return fmt::format("{}: {}", fmt::join(broken[0].variants, ", "), broken[0].brief);
  return "";
}

}  // namespace tidemark
