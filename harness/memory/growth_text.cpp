#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "harness/memory/format/format.h"
#include "harness/memory/growth.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"

namespace tidemark {

std::string how_often(std::int64_t every, const std::string& unit) {
  if (every == 0) return fmt::format("a {} on average", unit);
  if (every == 1) return "a " + unit;
  const std::int64_t last = every % 100 / 10 == 1 ? 0 : every % 10;
  const char* ending = last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
  return fmt::format("every {}{} {}", every, ending, unit);
}

namespace {

std::string module_text(const std::string& module) {
  if (module.empty()) return "";
  return module == recorder::kOutsideModules ? ", " + module : ", module " + module;
}

/// "; held by `total` in main (train.py:9)", of the first parts.
std::string held_by(const StepGrowth& growth, std::size_t most) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, growth.holders.size()); ++i)
    if (const Holder& holder = growth.holders[i];
        holder.is_known() && std::ranges::find(names, holder.text()) == names.end())
      names.push_back(holder.text());
  if (names.empty()) return "; what holds them is not known";
  return fmt::format("; held by {}", fmt::join(names, ", and by "));
}

/// How much steps leave behind differs.
bool differs(const StepGrowth& growth) { return growth.most - growth.least > growth.most / 20; }

}  // namespace

std::string rate_text(const StepGrowth& growth) {
  return fmt::format("{}{} {}", differs(growth) ? bytes_text(growth.least) + " to " : "",
                     bytes_text(growth.most), how_often(growth.every, growth.unit));
}

std::string holder_text(const StepGrowth& growth) {
  for (const Holder& holder : growth.holders)
    if (holder.is_known()) return "held by " + holder.text();
  if (growth.parts.empty()) return "what holds it is not known";
  const Part& most = growth.parts.front();
  return fmt::format("{}{}", name_of(most.kind), most.site.empty() ? "" : ", " + most.site);
}

namespace {

/// " by 2 MiB a step since step 4: ...", without the place that grows.
std::string by(const StepGrowth& growth, Bytes capacity) {
  constexpr std::size_t kMost = 3;  // places
  std::vector<std::string> places;
  for (std::size_t i = 0; i < std::min(kMost, growth.parts.size()); ++i) {
    const Part& part = growth.parts[i];
    const std::string own = growth.every == 0 ? " " + growth.often[i] : "";
    const char* one_or_more =
        part.count == 1 ? " gives way to a larger one" : " give way to larger ones";
    places.push_back(fmt::format(
        "{}{} {} {}{}, {}{}{}", bytes_text(part.bytes), own, growth.replaced[i] ? "as" : "in",
        plural(part.count, "block"), growth.replaced[i] ? one_or_more : "", name_of(part.kind),
        module_text(part.module), part.site.empty() ? "" : ", " + part.site));
  }
  if (growth.parts.size() > kMost)
    places.push_back(fmt::format("{} more", growth.parts.size() - kMost));
  const bool differ = differs(growth);
  const std::string often = how_often(growth.every, growth.unit);
  std::string out = fmt::format(" by {} since {} {}: {}", rate_text(growth), growth.unit,
                                exact(growth.since), fmt::join(places, "; "));
  out += held_by(growth, kMost);
  if (std::ranges::any_of(growth.holders, &Holder::is_freed_later))
    return out;  // it is freed now and then, and what hangs on it with it
  if (std::ranges::find(growth.replaced, true) != growth.replaced.end())
    return out;  // a block needs as much again while it gives way, and leaves a gap
  if (capacity <= growth.reserved || growth.filled == 0) return out;
  const std::int64_t times = (capacity - growth.reserved) / growth.filled + 1;
  const std::int64_t full = growth.last + times * std::max<std::int64_t>(growth.every, 1);
  // The allocator rounds blocks up, and it is full of those.
  const bool rounds = growth.filled > growth.most + growth.most / 20;
  const std::string rate =
      rounds   ? fmt::format("{} {}, as the allocator rounds blocks{},", bytes_text(growth.filled),
                             often, differ ? ", on average" : "")
      : differ ? fmt::format("{} {} on average", bytes_text(growth.filled), often)
               : "this rate";
  return out + fmt::format("; at {} the {} of this GPU are full in {} {}", rate,
                           bytes_text(capacity), growth.unit, exact(full));
}

}  // namespace

std::string growth_text(const StepGrowth& growth, Bytes capacity) {
  return place_name(growth.where, growth.device) + " grows" + by(growth, capacity);
}

std::vector<std::string> growth_texts(const std::vector<StepGrowth>& growths, Bytes capacity) {
  constexpr std::size_t kNamed = 3;
  struct Same {
    double rate = 0;
    std::vector<std::string> places;
    const StepGrowth* first = nullptr;  // that fills its device
  };
  std::map<std::string, Same> all;
  for (const StepGrowth& one : growths) {
    Same& same = all[by(one, 0)];
    same.rate = one.rate();
    same.places.push_back(place_name(one.where, one.device));
    if (same.first == nullptr || one.reserved > same.first->reserved) same.first = &one;
  }
  std::vector<const Same*> sorted;
  for (const auto& [text, same] : all) sorted.push_back(&same);
  std::ranges::stable_sort(sorted, std::greater(), &Same::rate);
  std::vector<std::string> out;
  for (const Same* same : sorted) {
    std::vector<std::string> names = same->places;
    std::string rest;
    if (names.size() > kNamed) {
      rest = fmt::format(" and {} more", names.size() - kNamed + 1);
      names.resize(kNamed - 1);
    } else if (names.size() > 1) {
      rest = " and " + names.back();
      names.pop_back();
    }
    out.push_back(fmt::format("{}{} {}{}", fmt::join(names, ", "), rest,
                              same->places.size() > 1 ? "grow" : "grows",
                              by(*same->first, capacity)));
  }
  return out;
}

}  // namespace tidemark
