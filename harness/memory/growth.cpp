#include "harness/memory/growth.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "harness/memory/format/format.h"
#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

constexpr std::size_t kFewest = 3;  // steps that show a growth
constexpr std::size_t kYoung = 2;   // last steps, of which something may be kept for the next
// Steps in which blocks gave way to larger ones, until that is a growth: by the same each time, and
// by any number of bytes, as outputs for batches of all lengths do a few times in a row.
constexpr std::size_t kFewestAlike = 4, kFewestLarger = 8;
constexpr std::size_t kFewestUneven = 8;  // steps that show a growth at unequal distances

struct Steps {
  std::string unit;
  std::vector<std::size_t> begins;    // moments
  std::vector<std::int64_t> numbers;  // of each, of which some may be left out
  std::size_t end = 0;                // what is alive then has been left behind
};

/// Phases of this name that an optimizer's step does not follow: those before it are parts of a
/// step.
Steps named(const MemoryPicture& picture, const char* name) {
  Steps out{name, {}, {}, 0};
  std::size_t end = 0;  // of the phase that is open, or of the optimizer's last step
  for (const MemoryPicture::Phase& phase : picture.phases)
    if (phase.name == "optimizer") end = std::max(end, phase.to);
  for (const MemoryPicture::Phase& phase : picture.phases) {
    if (phase.name != name || phase.from < end) continue;
    end = phase.to;
    // Nobody has counted those that are left out.
    if (phase.from < picture.whole_from) continue;
    out.begins.push_back(phase.from);
    out.numbers.push_back(std::ssize(out.begins));
  }
  out.end = end;  // the last backward frees the graph of the forwards before it
  return out;
}

Steps steps_of(const MemoryPicture& picture) {
  std::map<std::int64_t, std::size_t> begins(picture.left_steps.begin(), picture.left_steps.end());
  for (const MemoryPicture::Phase& phase : picture.phases) {
    const auto [at, fresh] = begins.try_emplace(phase.step, phase.from);
    if (!fresh) at->second = std::min(at->second, phase.from);
  }
  Steps out{"step", {}, {}, 0};
  if (begins.size() >= kFewest + kYoung) {
    for (const auto& [step, from] : begins) out.begins.push_back(from), out.numbers.push_back(step);
    out.end = out.begins.back();
    return out;
  }
  for (const char* name : {"backward", "forward"})
    if (Steps some = named(picture, name); some.begins.size() >= kFewest + kYoung) return some;
  return out;
}

/// "a step", "every 5th step"; 0: places that differ.
std::string how_often(std::int64_t every, const std::string& unit) {
  if (every == 0) return fmt::format("a {} on average", unit);
  if (every == 1) return "a " + unit;
  const std::int64_t last = every % 100 / 10 == 1 ? 0 : every % 10;
  const char* ending = last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
  return fmt::format("every {}{} {}", every, ending, unit);
}

/// Bytes and blocks at one place that each step has left behind, and those of `kept` ones that it
/// has freed: blocks that have outlived the steps for which something may be kept.
struct Left {
  Part part;
  std::vector<std::int64_t> bytes, blocks, filled, freed_bytes, freed_blocks;  // filled: by blocks
  std::map<Holder, std::int64_t> bytes_by_holder;
  std::vector<std::size_t> grown;  // steps, the last of them at equal distances
  bool grows = false;
  std::int64_t every = 0;  // these distances; 0: they are not equal, and `grown` is all steps
  std::int64_t span = 1;   // then the steps from the first of them on
  bool replaced = false;   // `bytes`: by how much its blocks gave way to larger ones

  explicit Left(std::size_t count)
      : bytes(count), blocks(count), filled(count), freed_bytes(count), freed_blocks(count) {}

  Holder holder() const {
    if (bytes_by_holder.empty()) return {};
    return std::ranges::max_element(bytes_by_holder, {}, [](const auto& one) { return one.second; })
        ->first;
  }

  /// `numbers`: of the steps, and of the next one.
  void judge(const std::vector<std::int64_t>& numbers) {
    for (std::size_t step = 0; step < bytes.size(); ++step)
      if (bytes[step] > 0) grown.push_back(step);
    if (grown.size() < kFewest) return;
    // A step that is left out of the record is like the one before it.
    const bool each = grown[grown.size() - 3] + 3 == bytes.size();
    const auto distance = [&](std::size_t i) {
      return each ? static_cast<std::int64_t>(grown[i] - grown[i - 1])
                  : numbers[grown[i]] - numbers[grown[i - 1]];
    };
    const std::int64_t last = distance(grown.size() - 1);
    const bool ended = !each && numbers[grown.back()] + last < numbers[bytes.size()];
    std::size_t first = grown.size() - 1;
    while (first > 0 && distance(first) == last) --first;
    const std::size_t alike = ended ? 0 : grown.size() - first;
    if (alike < kFewest || 2 * alike < grown.size()) judge_uneven(numbers);
    if (grows || alike < kFewest) return;
    grown.erase(grown.begin(), grown.begin() + static_cast<std::ptrdiff_t>(first));
    grows = is_more() && is_sure();
    every = last;
  }

  /// A growth at unequal distances goes on: a third of its steps lie in the second half, and the
  /// last has not been longer ago than twice the longest pause. A cache that fills is none.
  void judge_uneven(const std::vector<std::int64_t>& numbers) {
    if (replaced || grown.size() < kFewestUneven) return;
    std::vector<std::int64_t> at;
    for (const std::size_t step : grown) at.push_back(numbers[step]);
    const std::int64_t end = numbers[bytes.size()];
    span = end - at.front();
    const auto late = at.end() - std::ranges::upper_bound(at, at.front() + span / 2);
    std::int64_t pause = 0;
    for (std::size_t i = 1; i < at.size(); ++i) pause = std::max(pause, at[i] - at[i - 1]);
    grows = 3 * late >= std::ssize(at) && end - at.back() <= 2 * pause && is_more();
  }

  bool is_sure() const {
    return !replaced || grown.size() >= kFewestLarger ||
           (grown.size() >= kFewestAlike &&
            std::all_of(grown.end() - kFewestAlike, grown.end(),
                        [&](std::size_t step) { return bytes[step] == last_bytes(); }));
  }

  /// The last two of `grown` and the steps between have left more behind than was freed: else it
  /// is a ring of buffers, or a cache that is full.
  bool is_more() const {
    std::int64_t more_bytes = 0, more_blocks = 0;
    for (std::size_t step = grown[grown.size() - kFewest]; step < grown.back(); ++step) {
      more_bytes += bytes[step] - freed_bytes[step];
      more_blocks += blocks[step] - freed_blocks[step];
    }
    return more_bytes > 0 && more_blocks > 0;
  }

  std::int64_t last_bytes() const { return bytes[grown.back()]; }
  double rate() const { return a_step(bytes); }
  double filled_rate() const { return a_step(filled); }

  /// Mean over the steps that grow.
  std::int64_t mean(const std::vector<std::int64_t>& values) const {
    return std::llround(static_cast<double>(sum(values)) / static_cast<double>(grown.size()));
  }

  std::string often(const std::string& unit) const {
    if (every == 0) return fmt::format("in {} of {} {}s", grown.size(), span, unit);
    const bool alike =
        std::ranges::all_of(grown, [&](std::size_t step) { return bytes[step] == last_bytes(); });
    return how_often(every, unit) + (alike ? "" : " on average");
  }

 private:
  std::int64_t sum(const std::vector<std::int64_t>& values) const {
    std::int64_t all = 0;
    for (const std::size_t step : grown) all += values[step];
    return all;
  }
  double a_step(const std::vector<std::int64_t>& values) const {
    const std::int64_t steps = every > 0 ? every * std::ssize(grown) : span;
    return static_cast<double>(sum(values)) / static_cast<double>(steps);
  }
};

using Places = std::map<std::tuple<MemoryKind, std::string, std::string>, Left>;

Places left_by(const MemoryPicture& picture, const Steps& steps, std::size_t count) {
  Places all;
  const std::size_t end = steps.end;
  const auto step_at =
      [&](std::size_t moment) {  // a block that is there before all is of the first
        const auto after = std::ranges::lower_bound(steps.begins, moment);
        return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - steps.begins.begin(), 1)) -
               1;
      };
  for (const MemoryPicture::Block& block : picture.blocks) {
    const std::size_t step = step_at(block.from);
    if (block.from > end || block.until <= steps.begins.front() || step >= count) continue;
    const bool is_left = block.until > end;
    const std::size_t freed = is_left ? count : step_at(block.until);
    if (is_left ? block.from <= steps.begins.front() : freed >= count || freed - step <= kYoung)
      continue;
    const MemoryPicture::Place& place = picture.places[block.place];
    const std::string module = without_numbers(place.module);
    Left& left = all.try_emplace({place.kind, module, place.site}, count).first->second;
    left.part = {place.kind, module, place.site, 0, 0};
    if (is_left) {
      left.bytes[step] += block.bytes, left.blocks[step] += 1;
      left.filled[step] += recorder::rounded(block.bytes);
      if (place.holder.is_known()) left.bytes_by_holder[place.holder] += block.bytes;
    } else {
      left.freed_bytes[freed] += block.bytes, left.freed_blocks[freed] += 1;
    }
  }
  return all;
}

/// Places where blocks give way to larger ones: from the begin of a step to that of the next, bytes
/// rise and blocks do not become more.
Places larger_in(const MemoryPicture& picture, const Steps& steps) {
  struct Alive {                                     // at the begin of each step
    std::vector<std::int64_t> bytes, blocks, fresh;  // fresh: blocks of the step before
    std::map<Holder, std::int64_t> bytes_by_holder;
  };
  const auto index = [&](std::size_t moment) {
    return static_cast<std::size_t>(std::ranges::lower_bound(steps.begins, moment) -
                                    steps.begins.begin());
  };
  const std::size_t count = steps.begins.size(), first = index(picture.whole_from);
  const std::vector<std::int64_t> none(count);
  std::map<std::tuple<MemoryKind, std::string, std::string>, Alive> all;
  for (const MemoryPicture::Block& block : picture.blocks) {
    const std::size_t from = std::max(index(block.from), first), until = index(block.until);
    if (from >= until) continue;
    const MemoryPicture::Place& place = picture.places[block.place];
    Alive& at = all[{place.kind, without_numbers(place.module), place.site}];
    if (at.bytes.empty()) at.bytes = at.blocks = at.fresh = none;
    ++at.fresh[from];
    for (std::size_t step = from; step < until; ++step)
      at.bytes[step] += block.bytes, ++at.blocks[step];
    if (place.holder.is_known()) at.bytes_by_holder[place.holder] += block.bytes;
  }
  Places out;
  for (const auto& [key, at] : all) {
    Left left(count - 1);
    left.replaced = true;
    left.part = std::apply([](const auto&... words) { return Part{words..., 0, 0}; }, key);
    left.bytes_by_holder = at.bytes_by_holder;
    std::size_t since = first;  // from the last fall on, or the last block that was not there
    for (std::size_t step = first; step + 1 < count; ++step)
      if (at.bytes[step + 1] < at.bytes[step] || at.blocks[step + 1] > at.blocks[step])
        since = step + 1;
    for (std::size_t step = since; step + 1 < count; ++step) {
      left.bytes[step] = at.bytes[step + 1] - at.bytes[step];
      left.blocks[step] = at.fresh[step + 1];
    }
    out.emplace(key, std::move(left));
  }
  return out;
}

/// Divides the bytes and blocks of a place that grows in each step among the steps that are alike.
void share(Left& left, const std::vector<std::int64_t>& numbers) {
  for (const std::size_t step : left.grown) {
    const std::int64_t steps = numbers[step + 1] - numbers[step];
    left.bytes[step] /= steps, left.filled[step] /= steps;
    left.blocks[step] = std::max(left.blocks[step] / steps, std::int64_t{1});
  }
}

}  // namespace

std::optional<StepGrowth> growth_of(const MemoryPicture& picture) {
  const Steps steps = steps_of(picture);
  if (steps.begins.size() < kFewest + kYoung) return {};
  const std::size_t count = steps.begins.size() - kYoung;
  Places all = left_by(picture, steps, count);
  for (auto& [key, left] : all) {
    left.judge(steps.numbers);
    if (left.every == 1) share(left, steps.numbers);
  }
  const auto is_none = [](const auto& one) { return !one.second.grows; };
  std::erase_if(all, is_none);
  Places larger = larger_in(picture, steps);
  for (auto& [key, left] : larger) left.judge(steps.numbers);
  std::erase_if(larger, is_none);
  all.merge(larger);
  if (all.empty()) return {};
  std::vector<const Left*> parts;
  for (const auto& [key, left] : all) parts.push_back(&left);
  std::ranges::stable_sort(parts, std::greater(), &Left::rate);
  const Left& most = *parts.front();
  StepGrowth out;
  out.where = picture.where, out.device = picture.device;
  out.unit = steps.unit, out.every = most.every;
  std::vector<std::int64_t> sums(most.grown.size());  // the last first
  double rate = 0, fill_rate = 0;
  for (const Left* left : parts) {
    out.parts.push_back(left->part);
    out.parts.back().bytes = left->mean(left->bytes);
    out.parts.back().count = std::max(left->mean(left->blocks), std::int64_t{1});
    out.holders.push_back(left->holder());
    out.often.push_back(left->often(steps.unit));
    out.replaced.push_back(left->replaced);
    if (left->every != most.every) out.every = 0;
    rate += left->rate();
    fill_rate += left->filled_rate();
    for (std::size_t i = 0; i < std::min(sums.size(), left->grown.size()); ++i)
      sums[i] += left->bytes[left->grown[left->grown.size() - 1 - i]];
  }
  std::tie(out.least, out.most) = std::pair(std::ranges::min(sums), std::ranges::max(sums));
  out.filled = std::llround(fill_rate * static_cast<double>(std::max<std::int64_t>(out.every, 1)));
  if (out.every == 0) out.least = out.most = std::llround(rate);
  out.since = steps.numbers[most.grown.front()];
  out.last = out.every > 1 ? steps.numbers[most.grown.back()] : steps.numbers[count] - 1;
  for (std::size_t at = steps.begins[count - 1]; at <= steps.begins[count]; ++at)
    out.reserved = std::max(out.reserved, picture.reserved[at]);
  return out;
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

}  // namespace

std::string growth_text(const StepGrowth& growth, Bytes capacity) {
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
  const bool differ = growth.most - growth.least > growth.most / 20;
  const std::string often = how_often(growth.every, growth.unit);
  std::string out =
      fmt::format("{} grows by {}{} {} since {} {}: {}", place_name(growth.where, growth.device),
                  differ ? bytes_text(growth.least) + " to " : "", bytes_text(growth.most), often,
                  growth.unit, growth.since, fmt::join(places, "; "));
  out += held_by(growth, kMost);
  if (std::ranges::all_of(growth.holders, &Holder::is_freed_later))
    return out;  // it is freed now and then
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
                           bytes_text(capacity), growth.unit, full);
}

}  // namespace tidemark
